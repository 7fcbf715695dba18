"""The verdict on every finding of a subscription (contract 9.3 and 9.4, 6.5 to 6.7).

Of what explains a finding and of its alibis the mildest decides.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId
from dispatch_audit.pipeline.contract.rules import (
    FIRST_DELIVERY_ORDER,
    GAP_DELIVERY,
    NAME_OF,
    OVERTAKING,
    REDELIVERY_COUNT,
    REDELIVERY_ORDER,
    REPLAY_OVERTAKEN,
    RULES,
    SINGLE_HOLDER,
)
from dispatch_audit.pipeline.replay.rules.findings import NO_ALIBI, NOT_PERMITTED, Alibi, everything, joined
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import NOBODY, Records, chosen
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.early_duplicate import duplicates
from dispatch_audit.pipeline.replay.verdicts.finding import (
    UNEXPLAINED,
    FindingVerdict,
    milder,
    not_provable,
    unexplained,
)
from dispatch_audit.pipeline.replay.verdicts.missing.alibis import alibis_of_the_past, alibis_of_trace
from dispatch_audit.pipeline.replay.verdicts.overtaking import late_first, overtaken, two_holders

_EXCEPTION_OF: Final[Mapping[int, ExceptionId]] = {int(exception[1:]): exception for exception in EXCEPTIONS}
_UNSEEN_REDELIVERY: Final = not_provable(
    "an entry filter that reschedules and a transaction that aborts raise the count too, and leave no row (E4, E11)"
)
_REDELIVERY_LOST: Final = unexplained("every redeliver request must raise the count")


def judged(context: FindingContext) -> list[FindingVerdict]:
    """The verdict on each of the findings of the replay, in their order."""
    findings = context.found.findings
    if not findings.size:
        return []
    verdicts = _weighed(_explained(context), findings, alibis_of_trace(context))
    # That nothing explains it is a fact of a violation only.
    at = np.flatnonzero([verdict.severity == "violation" for verdict in verdicts])
    violations = _weighed([verdicts[index] for index in at], chosen(findings, at), alibis_of_the_past(context))
    for index, verdict in zip(at, violations, strict=True):
        verdicts[index] = verdict
    return verdicts


def _weighed(verdicts: Sequence[FindingVerdict], findings: Records, alibis: Sequence[Alibi]) -> list[FindingVerdict]:
    """The verdicts, milder where the finding has an alibi."""
    by = joined(findings, alibis).tolist()
    return [
        verdict if index == NO_ALIBI else milder(verdict, not_provable(alibis[index].because))
        for verdict, index in zip(verdicts, by, strict=True)
    ]


def plain_verdict(rule: int, permitted: int, context: FindingContext) -> FindingVerdict:
    """The verdict that follows from the rule of a finding and the exception that permits it alone."""
    facts = RULES[NAME_OF[rule]].rests_on
    whole = (alibi for alibi in alibis_of_trace(context) if alibi.covers is everything and alibi.fact in facts)
    plain = _by_rule(rule, permitted, context)
    return next((milder(plain, not_provable(alibi.because)) for alibi in whole), plain)


def _by_rule(rule: int, permitted: int, context: FindingContext) -> FindingVerdict:
    if permitted != NOT_PERMITTED:
        exception = _EXCEPTION_OF[permitted]
        # E6: dropping an entry on which a consumer still works is a bug; dropping one that only waits does no harm.
        harmed = (rule, exception) == (SINGLE_HOLDER, "E6")
        bugs = context.bugs_with("dropped_while_held") if harmed else ()
        return FindingVerdict("permitted", exception, bugs, f"due to {EXCEPTIONS[exception]}")
    told = RULES[NAME_OF[rule]]
    return FindingVerdict("info", because=told.because) if told.informs else UNEXPLAINED


def _miscounted(finding: KernelFinding, _: FindingContext) -> FindingVerdict:
    return _UNSEEN_REDELIVERY if finding.value > finding.expected else _REDELIVERY_LOST


def _outside_of_ranges(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    if finding.other_consumer != finding.consumer or finding.consumer == NOBODY:
        return UNEXPLAINED
    # Some versions route it so.
    return context.explained("the hash lies between two ranges of this consumer", "gap_inside_one_consumer")


# By rule what the rows around a finding explain of it; first deliveries and duplicates need those of others too.
_EXPLAINS: Final[Mapping[int, Callable[[KernelFinding, FindingContext], FindingVerdict]]] = {
    SINGLE_HOLDER: two_holders,
    REDELIVERY_ORDER: overtaken,
    REPLAY_OVERTAKEN: overtaken,
    REDELIVERY_COUNT: _miscounted,
    GAP_DELIVERY: _outside_of_ranges,
}


def _explained(context: FindingContext) -> list[FindingVerdict]:
    """What the rows around each finding explain of it."""
    findings = context.found.findings
    kinds = list(zip(findings.rule.tolist(), findings.permitted.tolist(), strict=True))
    plain = {(rule, permitted): _by_rule(rule, permitted, context) for rule, permitted in set(kinds)}
    verdicts = [plain[kind] for kind in kinds]
    unpermitted = findings.permitted == NOT_PERMITTED
    for at, finding in findings_at(findings, np.flatnonzero(unpermitted & np.isin(findings.rule, [*_EXPLAINS]))):
        verdicts[at] = _EXPLAINS[finding.rule](finding, context)
    passing = np.flatnonzero(np.isin(findings.rule, OVERTAKING))
    overtakings = {int(findings.seq[at]): verdicts[at] for at in passing}
    for at, finding in findings_at(findings, np.flatnonzero(unpermitted & (findings.rule == FIRST_DELIVERY_ORDER))):
        verdicts[at] = late_first(finding, overtakings, context)
    for at, verdict in duplicates(context).items():
        verdicts[at] = verdict
    return verdicts
