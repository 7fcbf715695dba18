"""The verdict on every finding of a subscription (contract 9.3 and 9.4, 6.5 to 6.7)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId
from dispatch_audit.pipeline.contract.rules import (
    ABORTED_ACKNOWLEDGEMENT,
    ACKNOWLEDGED_BEFORE_RESET,
    FIRST_DELIVERY_ORDER,
    GAP_DELIVERY,
    MISROUTED,
    NAME_OF,
    OVERTAKING,
    REDELIVERY_COUNT,
    RULES,
    SINGLE_HOLDER,
    UNACKED_LIMIT,
)
from dispatch_audit.pipeline.replay.rules.permitted import NOT_PERMITTED
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.early_duplicate import duplicates
from dispatch_audit.pipeline.replay.verdicts.missing.across_gaps import across_gaps, without_owners
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import filtered
from dispatch_audit.pipeline.replay.verdicts.missing.left_open import left_open
from dispatch_audit.pipeline.replay.verdicts.overtaking import late_first, overtaken
from dispatch_audit.pipeline.replay.verdicts.single_holder import two_holders
from dispatch_audit.pipeline.replay.verdicts.verdict import (
    INFORMATION,
    UNEXPLAINED,
    FindingVerdict,
    not_provable,
    permitted_by,
    unexplained,
)

_EXCEPTION_OF: Final[Mapping[int, ExceptionId]] = {int(exception[1:]): exception for exception in EXCEPTIONS}
_UNSEEN_REDELIVERY: Final = not_provable(
    "an entry filter that reschedules and a transaction that aborts raise the count too, and leave no row (E4, E11)"
)
_PERHAPS_ACKNOWLEDGED: Final = not_provable(
    "the recorder wrote only one side of dispatches or acknowledgements, so an acknowledgement that was recorded "
    "just after it may have taken effect before it"
)
_OWNER_UNKNOWN: Final = not_provable("the selector of the broker is unknown")
_TOTAL_VAGUE: Final = not_provable(
    "a consumer left with unacknowledged messages, or another one acknowledged them, and some versions count those "
    "twice: the broker's own count may have been below the limit (#24096, #26422)"
)
_OF_INFORMATION: Final[Mapping[int, FindingVerdict]] = {
    ACKNOWLEDGED_BEFORE_RESET: FindingVerdict(
        "info",
        because=(
            "a restart or an unload loses acknowledgements that were not stored: those after the cursor was stored "
            "last, and holes beyond managedLedgerMaxUnackedRangesToPersist; a seek brings all of them back on purpose"
        ),
    ),
    ABORTED_ACKNOWLEDGEMENT: FindingVerdict(
        "info", because="an abort returns what the transaction acknowledged, behind later entries of its key"
    ),
}
_REDELIVERY_LOST: Final = unexplained("every redeliver request must raise the count")


def judged(context: FindingContext) -> list[FindingVerdict]:
    """The verdict on each of the findings of the replay, in their order."""
    found, findings = context.found, context.found.findings
    if not findings.size:
        return []
    kinds = list(zip(findings.rule.tolist(), findings.permitted.tolist(), strict=True))
    plain = {(rule, permitted): plain_verdict(rule, permitted, context) for rule, permitted in set(kinds)}
    verdicts = [plain[kind] for kind in kinds]
    overtakings: dict[int, FindingVerdict] = {}
    for at, finding in findings_at(findings, np.flatnonzero(np.isin(findings.rule, OVERTAKING))):
        if finding.permitted == NOT_PERMITTED:
            verdicts[at] = overtaken(finding, overtakings, context)
        overtakings[finding.seq] = verdicts[at]
    for at, verdict in duplicates(overtakings, context).items():
        verdicts[at] = verdict
    for at, finding in findings_at(findings, np.flatnonzero(findings.permitted == NOT_PERMITTED)):
        if finding.rule == SINGLE_HOLDER:
            verdicts[at] = two_holders(finding, context)
        elif finding.rule == FIRST_DELIVERY_ORDER:
            verdicts[at] = late_first(finding, overtakings, context)
        elif finding.rule == REDELIVERY_COUNT:
            verdicts[at] = _UNSEEN_REDELIVERY if finding.value > finding.expected else _REDELIVERY_LOST
        elif finding.rule == UNACKED_LIMIT and not found.membership.one_sided.of_traffic:
            verdicts[at] = _beyond_limit(finding, context)
        elif finding.rule in MISROUTED and (doubt := context.doubts.about(finding.hash, finding.seq)):
            verdicts[at] = not_provable(doubt.because)
        elif finding.rule == GAP_DELIVERY and finding.other_consumer == finding.consumer != NOBODY:
            verdicts[at] = _routed_gap(context)
    if found.membership.owners.unknown:
        verdicts = without_owners(verdicts, context)
    return filtered(across_gaps(left_open(verdicts, context), context), context)


def plain_verdict(rule: int, permitted: int, context: FindingContext) -> FindingVerdict:
    """The verdict that follows from the rule of a finding and the exception that permits it alone."""
    if permitted != NOT_PERMITTED:
        exception = _EXCEPTION_OF[permitted]
        # E6: dropping an entry on which a consumer still works is a bug; dropping one that only waits does no harm.
        harmed = (rule, exception) == (SINGLE_HOLDER, "E6")
        return permitted_by(exception, *(context.bugs_with("dropped_while_held") if harmed else ()))
    if rule in MISROUTED and context.found.membership.owners.unknown:
        return _OWNER_UNKNOWN
    if rule == UNACKED_LIMIT and context.found.membership.one_sided.of_traffic:
        return _PERHAPS_ACKNOWLEDGED
    return _OF_INFORMATION.get(rule, INFORMATION) if RULES[NAME_OF[rule]].informs else UNEXPLAINED


def _beyond_limit(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on a dispatch beyond a claimed limit, which the broker may not have."""
    disputed = context.found.loop.limits.is_disputed(finding.limited, finding.seq)
    if disputed is not None:
        return not_provable(f"the broker does not keep the claimed {disputed} (settings_mismatch)")
    return _TOTAL_VAGUE if finding.vague else UNEXPLAINED


def _routed_gap(context: FindingContext) -> FindingVerdict:
    """The verdict on a hash between two ranges of one consumer, which some versions route to that consumer."""
    bugs = context.bugs_with("gap_inside_one_consumer")
    if not bugs:
        return UNEXPLAINED
    return FindingVerdict("known_bug", None, bugs, "the hash lies between two ranges of this consumer")
