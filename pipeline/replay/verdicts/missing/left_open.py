"""A finding that depends on facts which the trace as a whole does not show is not provable.

If a recorder writes no acknowledgements, no row shows that a consumer still held an entry, or that a returned entry
still waits. If it writes no leaves, a consumer that no later row or snapshot names may have left, and its hashes and
entries may have moved to others.

A row `settings` may change `subscriptionKeySharedUseClassicPersistentImplementation`. The new value concerns
dispatchers that are created after it (contract 8). The classic and the draining dispatcher differ in rules, exceptions
and bugs, and the replay follows only one of them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.answers import Missing
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING
from dispatch_audit.pipeline.contract.rules import (
    EARLY_DUPLICATE,
    MISROUTED,
    OVERTAKING,
    REDELIVERY_COUNT,
    SINGLE_HOLDER,
    UNACKED_LIMIT,
)
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict, not_provable

_ON_ACKNOWLEDGEMENTS: Final = frozenset({SINGLE_HOLDER, *OVERTAKING, UNACKED_LIMIT, REDELIVERY_COUNT})
_ON_LEAVES: Final = frozenset({SINGLE_HOLDER, EARLY_DUPLICATE, *OVERTAKING, *MISROUTED})
_NO_ACKNOWLEDGEMENT: Final = "the trace has no row of an acknowledgement, so it does not show what consumers still held"
_NO_LEAVE: Final = (
    "the trace has no row of a leave, and it shows nothing of {} from then on, which may have left before"
)
_OTHER_DISPATCHER: Final = f"a row `settings` changed {CLASSIC_SETTING}, so the dispatcher may be of the other kind"
_PROVEN: Final = ("violation", "known_bug")


def left_open(verdicts: Sequence[FindingVerdict], context: FindingContext) -> list[FindingVerdict]:
    """The verdicts, in their order; those that depend on what the trace does not show become not provable."""
    if context.acks_recorded and context.leaves_recorded and context.found.loop.other_dispatcher_seq is None:
        return list(verdicts)
    findings = findings_at(context.found.findings, np.arange(len(verdicts)))
    return [_weighed(verdicts[at], finding, context) for at, finding in findings]


def _weighed(verdict: FindingVerdict, finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    if verdict.severity not in _PROVEN:
        return verdict
    because = not_acknowledged(context) if finding.rule in _ON_ACKNOWLEDGEMENTS else ""
    if not because and finding.rule in _ON_LEAVES:
        because = perhaps_gone(context, finding.seq)
    # Both kinds of dispatcher keep the limit of unacknowledged messages (4.7).
    if not because and finding.rule != UNACKED_LIMIT:
        because = perhaps_other_dispatcher(context, finding.seq)
    return not_provable(because) if because else verdict


def not_acknowledged(context: FindingContext) -> str:
    """Why the trace does not show what consumers still held, as a clause; empty: it does."""
    return "" if context.acks_recorded else _NO_ACKNOWLEDGEMENT


def perhaps_gone(context: FindingContext, seq: int) -> str:
    """Why a consumer may have left before a row although no leave is recorded, as a clause; empty: none may have."""
    if context.leaves_recorded:
        return ""
    last_named = context.found.dispatcher.seen.consumers.view(np.ndarray)["named_seq"].tolist()
    for index, number in enumerate(context.numbers):
        stay = context.stays.get(number)
        if stay is not None and stay.joined is not None and stay.joined.seq < seq and last_named[index] < seq:
            return _NO_LEAVE.format(context.names.spoken(index))
    return ""


def perhaps_other_dispatcher(context: FindingContext, seq: int) -> str:
    """Why the dispatcher at a row may be of the other kind, as a clause; empty: it is of the claimed kind."""
    since = context.found.loop.other_dispatcher_seq
    return _OTHER_DISPATCHER if since is not None and seq >= since else ""


def doubt_of_waits(context: FindingContext, seq: int) -> str:
    """Why no consumer may have been able to take the entries that waited up to a row, as a clause; empty: one could."""
    return perhaps_other_dispatcher(context, seq) or not_acknowledged(context) or perhaps_gone(context, seq)


def unrecorded(context: FindingContext) -> list[Missing]:
    """The kinds of rows that the trace lacks and on which its findings depend."""
    findings, missing = context.found.findings, list[Missing]()
    rules = findings.rule
    if not context.acks_recorded and np.isin(rules, list(_ON_ACKNOWLEDGEMENTS)).any():
        missing.append("acknowledgements")
    on_leaves = findings.seq[np.isin(rules, list(_ON_LEAVES))]
    if on_leaves.size and perhaps_gone(context, int(on_leaves.max())):
        missing.append("leaves")
    return missing
