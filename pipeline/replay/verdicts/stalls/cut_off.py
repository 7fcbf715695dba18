"""Logs that end in the middle: dispatches and acknowledgements have begun there, not ended, and entries wait.

A broker that hangs leaves such a log, and so does one that is killed: what came later is not known. It is if the
recorder was closed in order, or wrote on long enough for a stall.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dispatch_audit.pipeline.contract.known_bugs import label, titles
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding
from dispatch_audit.pipeline.utc import moment


def ends_in_the_middle(found: ReplayResult) -> bool:
    """Whether the log of a subscription ends so."""
    if not found.report_range.final or found.membership.one_sided.of_traffic:
        return False
    closed = found.signs.ended_seq > found.membership.released.seq
    waiting = int(common_of(found.dispatcher.seen)["waiting"])
    begun = bool(_settling(found).size) and found.unseen.dispatches_without_end > 0
    return not closed and waiting > 0 and begun


def cut_off(context: FindingContext, stalls: Sequence[Blocked]) -> list[JudgedFinding]:
    """A finding where the log ends so and none of the stalls lasts to the end; nothing of it can be proven."""
    found = context.found
    if any(stall.span.ended_by == STILL_OPEN for stall in stalls) or not ends_in_the_middle(found):
        return []
    marks, last = _settling(found), found.membership.released
    acks = count(marks.size, "acknowledgement")
    sent = count(found.unseen.dispatches_without_end, "dispatch", "dispatches")
    why = ["a broker that hangs leaves such a log, and so does one that is killed: what came later is not known"]
    if (marks & Mark.IN_TRANSACTION).any():
        bugs = context.bugs_with("deadlocked_with_pending_acks")
        why += [f"{title}; that leaves such a log too" for title in titles(bugs, label)]
    text = FindingText(
        what=f"the log ends at {moment(last.ts_us)}, after which it is not known whether anything was sent",
        contrast="although",
        against=f"{entries(int(common_of(found.dispatcher.seen)['waiting']))} waited, and {acks} and {sent} had begun",
        why=tuple(why),
        remedy="See whether the broker still ran, and what its threads waited for (jstack).",
    )
    row = f"seq {context.names.seq(last.seq)}: the last row"
    return [JudgedFinding(severity="not_provable", seq=last.seq, ts_us=last.ts_us, explanation=text, evidence=[row])]


def _settling(found: ReplayResult) -> Any:
    """The marks of entries whose acknowledgement has begun and not ended."""
    used: Any = found.dispatcher.seen.entries.view(np.ndarray)
    marks = used["marks"][used["ledger"] != UNKNOWN]
    return marks[marks & Mark.SETTLING != 0]
