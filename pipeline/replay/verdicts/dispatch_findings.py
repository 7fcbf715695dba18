"""Findings on the dispatches and acknowledgements of a subscription, with verdicts, by rule, worst first."""

from bisect import bisect_left
from collections import Counter

import numpy as np

from dispatch_audit.pipeline.contract.rules import NAME_OF, OVERTAKING, RULES, UNACKED_LIMIT
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_CONSUMER, UNACKED_PER_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION, KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.state.state import COUNTED
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.explanations import EpochNamed, change_at_issue, evidence, explanation
from dispatch_audit.pipeline.replay.verdicts.finding import ALL, JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.judge import judged, plain_verdict
from dispatch_audit.pipeline.replay.verdicts.missing.assumed import assumed
from dispatch_audit.pipeline.replay.verdicts.naming import or_none, position
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict


def dispatch_findings(context: FindingContext, per_rule_max: int = ALL) -> list[RuleFindings]:
    """The findings of the kernel, for every rule that applies to this broker.

    At most `per_rule_max` findings of a rule are worded, because there may be millions; `ALL`: every one.
    """
    found = context.found
    verdicts = judged(context)
    reported = found.reported_findings
    rules = found.findings.rule[reported]
    by_rule: list[RuleFindings] = []
    for rule, name in NAME_OF.items():
        if not context.applies(name):
            continue
        indexes = reported[rules == rule]
        counts: Counter[Severity] = Counter(verdicts[at].severity for at in indexes)
        for (beyond, permitted), count in found.dispatcher.collector.findings.beyond.items():
            if beyond == rule:
                counts[plain_verdict(rule, permitted, context).severity] += count
        worst = indexes[_by_badness(chosen(found.findings, indexes), [verdicts[at] for at in indexes])]
        worded = findings_at(found.findings, worst[: per_rule_max or None])
        findings = [_finding(finding, verdicts[at], context) for at, finding in worded]
        checked = int(found.dispatcher.checked[COUNTED.index(RULES[name].counted)])
        by_rule.append(RuleFindings(name, checked, counts, findings))
    return by_rule


def _by_badness(found: Records, verdicts: list[FindingVerdict]) -> Ints:
    """The order in which findings of one rule are reported: the worst severity first, then the most harmful."""
    rank = {severity: -number for number, severity in enumerate(SEVERITIES)}
    severity = np.array([rank[verdict.severity] for verdict in verdicts], dtype=np.int64)
    # If the two entries have different keys on one hash, the rule is broken but no key is out of order (contract 9.1).
    other_key = (found.other_seq != UNKNOWN) & (found.key_id != found.other_key_id)
    order: Ints = np.lexsort((found.seq, -_lasted_us(found), other_key, severity))
    return order


def _lasted_us(found: Records) -> Ints:
    """The microseconds for which the other entry had been held, or had waited; 0 without another entry."""
    overtaking = np.isin(found.rule, OVERTAKING)
    since = np.where(overtaking, found.other_since_ts, found.other_ts)
    return np.where(since == UNKNOWN, 0, found.ts_us - since)


def _finding(finding: KernelFinding, verdict: FindingVerdict, context: FindingContext) -> JudgedFinding:
    epochs, names = context.found.membership.owners.epochs, context.names
    # An epoch begins after the row of its seq.
    number = max(bisect_left(epochs.began, finding.seq, key=lambda at: at.seq) - 1, 0)
    change = epochs.changes[number] if epochs.changes else None
    epoch = EpochNamed(number, change, not context.misrouted(finding.seq))
    keyed = finding.hash != UNKNOWN
    taken = _assumed(finding, verdict, context)
    return JudgedFinding(
        severity=verdict.severity,
        seq=finding.seq,
        ts_us=finding.ts_us,
        explanation=explanation(finding, verdict, names, epoch, context.release, taken),
        evidence=evidence(finding, names),
        sticky_hash=finding.hash if keyed else None,
        key_id=finding.key_id if keyed else None,
        ledger_id=or_none(finding.ledger),
        entry_id=or_none(finding.entry),
        consumer=names.number(finding.consumer),
        consumer_name=names.name(finding.consumer),
        other_consumer=names.number(finding.other_consumer),
        other_consumer_name=names.name(finding.other_consumer),
        epoch=number,
        change=change_at_issue(finding, epoch),
        permitted_by=verdict.permitted_by,
        known_bugs=verdict.known_bugs,
        assumes=taken,
        detail=_detail(finding, context),
    )


def _assumed(finding: KernelFinding, verdict: FindingVerdict, context: FindingContext) -> tuple[Assumption, ...]:
    """The limit that a dispatch goes beyond, if no row says it."""
    if finding.rule != UNACKED_LIMIT or finding.said or verdict.severity == "not_provable":
        return ()
    name = UNACKED_PER_SUBSCRIPTION if finding.limited == OF_SUBSCRIPTION else UNACKED_PER_CONSUMER
    return assumed((name,), context)


def _detail(finding: KernelFinding, context: FindingContext) -> dict[str, object]:
    """The details that have no column."""
    detail: dict[str, object] = {"draining": bool(finding.draining)}
    if finding.other_ledger != UNKNOWN:
        detail["other_position"] = position(finding.other_ledger, finding.other_entry)
        detail["other_seq"] = None if finding.other_seq == UNKNOWN else context.names.own_seq(finding.other_seq)
        same = finding.key_id == finding.other_key_id
        detail["same_key"] = True if same else None if context.config.digests_change else False
    if finding.expected != UNKNOWN:
        detail["value"], detail["expected"] = finding.value, finding.expected
    return detail
