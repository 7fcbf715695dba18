"""Brokers that hang: what their logs show, and logs that end in the middle as those of a broker that hangs.

A snapshot that needs the locks of the dispatcher did not end meanwhile. Whatever dispatches, joins or leaves needs the
same locks, so the hang explains that nothing was sent. Who held them is in the recorder's row, and shows the known
deadlock between a dispatcher and its pending acknowledgements.

Where a log ends, dispatches and acknowledgements may have begun and not ended, while entries wait. A broker that is
killed leaves such a log too: what came later is not known. It is if the recorder was closed in order, or wrote on long
enough for a stall.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.contract.known_bugs import titles
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.signs.broker_signs import Hang
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding, not_provable
from dispatch_audit.pipeline.utc import moment

PENDING_ACKS: Final = "PendingAckHandleImpl"
"""The class of Pulsar whose lock a dispatcher takes that acknowledges an aborted message by itself."""


def hang_in(span: Interval, context: FindingContext) -> Hang | None:
    """The hang that covers most of an interval; None: none does."""
    hang = context.found.signs.hang_within(span.from_ts, span.to_ts)
    if hang is None:
        return None
    covered = min(hang.until_us, span.to_ts) - max(hang.begun_us, span.from_ts)
    return hang if 2 * covered >= span.to_ts - span.from_ts else None


def bugs_of(hang: Hang, context: FindingContext) -> tuple[str, ...]:
    """The known bugs that the holders of the locks show."""
    return context.bugs_with("deadlocked_with_pending_acks") if PENDING_ACKS in hang.waits_for else ()


def spoken(hang: Hang) -> str:
    """What a hang says, as a clause."""
    until = f"until {moment(hang.until_us)}" if hang.over else f"up to {moment(hang.until_us)} at least"
    holders = f": it waited for {hang.waits_for}" if hang.waits_for else ""
    return f"the broker hung: a snapshot that began at {moment(hang.begun_us)} got no locks {until}{holders}"


def hung(context: FindingContext, told: Sequence[Blocked]) -> list[JudgedFinding]:
    """A finding for each hang in which no entry is known to wait, and which none of the intervals `told` names.

    A topic's thread that waits for the locks stores nothing either, so that the entries that wait have no rows.
    """
    found = context.found
    hangs = [
        hang
        for hang in found.signs.hangs
        if (found.report_range.contains(hang.seq) if hang.over else found.report_range.final)
        and hang.until_us - hang.begun_us >= context.config.thresholds.stall_threshold_us
    ]
    # Few subscriptions have any, and many have thousands of intervals.
    named = [hang_in(interval.span, context) for interval in told] if hangs else []
    return [
        context.finding(
            TracePoint(hang.seq, hang.until_us),
            spoken(hang),
            not_provable("no row shows an entry that waited, but a broker that hangs may not store what is published"),
            [f"seq {context.names.seq(hang.seq)}: the last row about it"],
            remedy="See what the threads of the broker waited for (jstack); one that holds the locks for ever ends "
            "only with the broker.",
            detail={"seconds": (hang.until_us - hang.begun_us) / 1e6},
        )
        for hang in hangs
        if hang not in named
    ]


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
    if any(stall.span.ended_by == By.OPEN for stall in stalls) or not ends_in_the_middle(found):
        return []
    marks, last = _settling(found), found.membership.released
    acks = count(marks.size, "acknowledgement")
    sent = count(found.unseen.dispatches_without_end, "dispatch", "dispatches")
    waited = entries(int(common_of(found.dispatcher.seen)["waiting"]))
    why = ["a broker that hangs leaves such a log, and so does one that is killed: what came later is not known"]
    if (marks & Mark.IN_TRANSACTION).any():
        bugs = context.bugs_with("deadlocked_with_pending_acks")
        why += [f"{title}; that leaves such a log too" for title in titles(bugs)]
    finding = context.finding(
        last,
        f"the log ends at {moment(last.ts_us)}, after which it is not known whether anything was sent",
        not_provable("; ".join(why)),
        [f"seq {context.names.seq(last.seq)}: the last row"],
        contrast="although",
        against=f"{waited} waited, and {acks} and {sent} had begun",
        remedy="See whether the broker still ran, and what its threads waited for (jstack).",
    )
    return [finding]


def _settling(found: ReplayResult) -> Any:
    """The marks of entries whose acknowledgement has begun and not ended."""
    used: Any = found.dispatcher.seen.entries.view(np.ndarray)
    marks = used["marks"][used["ledger"] != UNKNOWN]
    return marks[marks & Mark.SETTLING != 0]
