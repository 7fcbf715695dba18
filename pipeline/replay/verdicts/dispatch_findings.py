"""Findings on the dispatches and acknowledgements of a subscription, by rule: each with its verdict and in words.

Of what explains a finding and of its alibis the mildest decides (contract 9.3 and 9.4, 6.5 to 6.7).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId
from dispatch_audit.pipeline.contract.rule import Case
from dispatch_audit.pipeline.contract.rules import (
    FIRST_DELIVERY_ORDER,
    GAP_DELIVERY,
    MISROUTED,
    NAME_OF,
    OVERTAKING,
    REDELIVERY_COUNT,
    REDELIVERY_ORDER,
    REPLAY_OVERTAKEN,
    RULES,
    SINGLE_HOLDER,
    UNACKED_LIMIT,
)
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.rules.findings import NO_ALIBI, NOT_PERMITTED, Alibi, everything, joined
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_CONSUMER, UNACKED_PER_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION, KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.state.state import COUNTED
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.verdicts.alibis import alibis_of_the_past, alibis_of_trace, assumed
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.early_duplicate import duplicates
from dispatch_audit.pipeline.replay.verdicts.finding import (
    ALL,
    UNEXPLAINED,
    FindingVerdict,
    JudgedFinding,
    Names,
    RuleFindings,
    milder,
    not_provable,
    or_none,
    position,
    unexplained,
)
from dispatch_audit.pipeline.replay.verdicts.overtaking import late_first, overtaken, passes_a_leaver, two_holders
from dispatch_audit.pipeline.utc import moment

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
    verdicts = _explained(context)
    _weigh(verdicts, np.arange(findings.size), findings, alibis_of_trace(context))
    # That nothing explains it is a fact of a violation only.
    violations = np.flatnonzero([verdict.severity == "violation" for verdict in verdicts])
    _weigh(verdicts, violations, findings, alibis_of_the_past(context))
    return verdicts


def _weigh(verdicts: list[FindingVerdict], indexes: Ints, findings: Records, alibis: Sequence[Alibi]) -> None:
    for at, by in zip(indexes.tolist(), joined(chosen(findings, indexes), alibis).tolist(), strict=True):
        if by != NO_ALIBI:
            verdicts[at] = milder(verdicts[at], not_provable(alibis[by].because))


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


def dispatch_findings(context: FindingContext, per_rule_max: int = ALL) -> list[RuleFindings]:
    """The findings of the kernel, for every rule that applies to this broker.

    At most `per_rule_max` findings of a rule are worded, because there may be millions; `ALL`: every one.
    """
    found = context.found
    verdicts = judged(context)
    reported = np.flatnonzero(found.report_range.holds(found.findings.seq))
    rules = found.findings.rule[reported]
    by_rule: list[RuleFindings] = []
    for rule, name in NAME_OF.items():
        if not context.applies(name):
            continue
        indexes = reported[rules == rule]
        counts: Counter[Severity] = Counter(verdicts[at].severity for at in indexes)
        for (beyond, permitted), number in found.dispatcher.collector.findings.beyond.items():
            if beyond == rule:
                counts[plain_verdict(rule, permitted, context).severity] += number
        if indexes.size:
            indexes = indexes[_by_badness(chosen(found.findings, indexes), [verdicts[at] for at in indexes])]
        worded = findings_at(found.findings, indexes[: per_rule_max or None])
        findings = [_finding(finding, verdicts[at], context) for at, finding in worded]
        checked = int(found.dispatcher.checked[COUNTED.index(RULES[name].counted)])
        by_rule.append(RuleFindings(name, checked, counts, findings))
    return by_rule


def _by_badness(found: Records, verdicts: list[FindingVerdict]) -> Ints:
    """The order in which findings of one rule are reported: the worst severity first, then the most harmful."""
    severity = np.array([-SEVERITIES.index(verdict.severity) for verdict in verdicts], dtype=np.int64)
    # If the two entries have different keys on one hash, the rule is broken but no key is out of order (contract 9.1).
    other_key = (found.other_seq != UNKNOWN) & (found.key_id != found.other_key_id)
    # For how long the other entry, if there is one, had been held, or had waited.
    since = np.where(np.isin(found.rule, OVERTAKING), found.other_since_ts, found.other_ts)
    lasted_us = np.where(since == UNKNOWN, 0, found.ts_us - since)
    order: Ints = np.lexsort((found.seq, -lasted_us, other_key, severity))
    return order


def _finding(finding: KernelFinding, verdict: FindingVerdict, context: FindingContext) -> JudgedFinding:
    epochs, rule, case = context.found.membership.owners.epochs, RULES[NAME_OF[finding.rule]], _case(finding)
    # An epoch begins after the row of its seq.
    epoch = max(bisect_left(epochs.began, finding.seq, key=lambda at: at.seq) - 1, 0)
    change = epochs.changes[epoch] if epochs.changes else None
    owned = finding.seq not in context.misrouted
    says_owner = finding.rule in MISROUTED or (finding.rule == SINGLE_HOLDER and owned)
    wording = rule.wording if case is None else rule.otherwise.get(case, rule.wording)
    assert wording is not None, "the kernel checks a rule without a wording"
    words = _words(finding, context.names, f"in epoch {epoch} ({change or 'nobody'})", owned)
    prefixes = {"not_provable": "not provable: ", "permitted": f"permitted by {verdict.permitted_by}: "}
    # The limit that a dispatch goes beyond, if no row says it.
    of_subscription = finding.limited == OF_SUBSCRIPTION
    rests_on_claim = finding.rule == UNACKED_LIMIT and not finding.said and verdict.severity != "not_provable"
    limit = (UNACKED_PER_SUBSCRIPTION if of_subscription else UNACKED_PER_CONSUMER,) if rests_on_claim else ()
    return context.finding(
        finding,
        wording.what.format_map(words),
        verdict._replace(because=verdict.because and prefixes.get(verdict.severity, "") + verdict.because),
        [f"seq {context.names.seq(seq)}: {event}" for seq, event in sorted(_events(finding, context.names))],
        contrast=wording.contrast,
        against=wording.against.format_map(words),
        assumes=assumed(limit, context),
        sticky_hash=or_none(finding.hash),
        key_id=None if finding.hash == UNKNOWN else finding.key_id,
        entry=(or_none(finding.ledger), or_none(finding.entry)),
        consumer=finding.consumer,
        other_consumer=finding.other_consumer,
        epoch=epoch,
        change=change if says_owner else None,
        detail=_detail(finding, context),
    )


def _detail(finding: KernelFinding, context: FindingContext) -> dict[str, object]:
    detail: dict[str, object] = {"draining": bool(finding.draining)}
    if finding.other_ledger != UNKNOWN:
        detail["other_position"] = position(finding.other_ledger, finding.other_entry)
        detail["other_seq"] = None if finding.other_seq == UNKNOWN else context.names.own_seq(finding.other_seq)
        same = finding.key_id == finding.other_key_id
        detail["same_key"] = True if same else None if context.config.digests_change else False
    if finding.expected != UNKNOWN:
        detail["value"], detail["expected"] = finding.value, finding.expected
    return detail


def _events(finding: KernelFinding, names: Names) -> Iterator[tuple[int, str]]:
    """The rows that prove a finding, with what they say."""
    rule = RULES[NAME_OF[finding.rule]]
    entry, other = position(finding.ledger, finding.entry), position(finding.other_ledger, finding.other_entry)
    other = entry if finding.other_ledger == UNKNOWN else other
    if finding.other_seq != UNKNOWN:
        yield finding.other_seq, f"{other} dispatched to {names.spoken(finding.other_consumer)}"
    if finding.other_since_seq != UNKNOWN and finding.rule in OVERTAKING and not passes_a_leaver(finding):
        yield finding.other_since_seq, f"{other} {_since_when(finding.other_marks)}"
    if rule.sent_before and finding.sent_before_seq != UNKNOWN:
        yield finding.sent_before_seq, f"{entry} dispatched to {names.spoken(finding.sent_before_to)}"
    done = "acknowledged by" if rule.counted == "acknowledgements" else "dispatched to"
    yield finding.seq, f"{entry} {done} {names.spoken(finding.consumer)}"


def _since_when(marks: int) -> str:
    """The event that made an entry wait, as a participle."""
    if marks & Mark.NACKED:
        return "returned by a redeliver request"
    return "returned when its consumer left" if marks & Mark.RETURNED else "published"


def _words(finding: KernelFinding, names: Names, in_epoch: str, owned: bool) -> dict[str, object]:
    """The words for the names in braces in the wordings of rules; `owned`: whether the receiver owns the hash."""
    receiver, other = names.spoken(finding.consumer), names.spoken(finding.other_consumer)
    entry, other_seq = position(finding.ledger, finding.entry), names.seq(finding.other_seq)
    here = f"at {moment(finding.ts_us)} (seq {names.seq(finding.seq)})"
    waits = finding.rule in OVERTAKING
    return {
        "receiver": receiver,
        "other": other,
        "entry": entry,
        "other_entry": position(finding.other_ledger, finding.other_entry),
        "other_seq": other_seq,
        "here": here,
        "epoch": in_epoch,
        "owned": f", because this consumer owns the hash {in_epoch}" if owned else "",
        "value": finding.value,
        "expected": finding.expected,
        "held_messages": count(finding.value, "unacknowledged message"),
        "read_entries": entries(finding.read_when_full),
        "redeliver_requests": count(finding.expected, "redeliver request"),
        "waited": f"{_since_when(finding.other_marks)} at {moment(finding.other_since_ts)}" if waits else "",
        "other_since_seq": names.seq(finding.other_since_seq),
        "draining": "the hash was draining and " if finding.draining else "",
        "routed": "" if finding.other_consumer == NOBODY else f", which the selector of this version routes to {other}",
        "sent": f"entry {entry} of hash {finding.hash} went to {receiver} {here}",
        "held": f"sent at seq {other_seq} and neither acknowledged nor returned since",
    }


def _case(finding: KernelFinding) -> Case | None:
    """The special case of the finding, for which its rule may have a wording of its own; None: no special case."""
    if finding.rule in OVERTAKING:
        return "leaving" if passes_a_leaver(finding) else None
    if finding.limited == OF_SUBSCRIPTION:
        return "subscription"
    if finding.acknowledged:
        return "passed" if finding.marks & Mark.PASSED else "acknowledged"
    return None
