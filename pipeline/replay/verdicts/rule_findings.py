"""Rows of `violations` and `metrics` from the findings of all parts of the audit.

Each part hands over its findings by rule, as `RuleFindings`; `dispatch_findings` does so for the kernel's rules.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dispatch_audit.pipeline.contract.known_bugs import labels
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, Severity
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.naming import Columns, Rows


class RuleFindings(NamedTuple):
    """The findings of one part of the audit about one rule on one subscription.

    Attributes:
        rule: the name of the rule.
        checked: how often the rule was checked.
        counts: the number of findings by severity, including those without evidence here.
        worst: the worst findings with their evidence, worst first, up to the limit.
    """

    rule: RuleName
    checked: int
    counts: Mapping[Severity, int]
    worst: Sequence[JudgedFinding]


def severities(found: Iterable[JudgedFinding]) -> Counter[Severity]:
    """The number of findings by severity."""
    return Counter(finding.severity for finding in found)


def violations(topic: str, subscription: str, found: Iterable[RuleFindings]) -> Columns:
    """The columns of `violations`: a row for each finding that is kept with its evidence."""
    kept = [(of_rule.rule, finding) for of_rule in found for finding in of_rule.worst]
    if not kept:
        return {}
    rules, findings = zip(*kept, strict=True)
    worded = [finding.explanation for finding in findings]
    return {
        "rule": rules,
        "topic": [topic] * len(kept),
        "subscription": [subscription] * len(kept),
        "severity": [finding.severity for finding in findings],
        "sticky_hash": [finding.sticky_hash for finding in findings],
        "key_id": [finding.key_id for finding in findings],
        "ledger_id": [finding.ledger_id for finding in findings],
        "entry_id": [finding.entry_id for finding in findings],
        "consumer": [finding.consumer for finding in findings],
        "consumer_name": [finding.consumer_name for finding in findings],
        "other_consumer": [finding.other_consumer for finding in findings],
        "other_consumer_name": [finding.other_consumer_name for finding in findings],
        "epoch": [finding.epoch for finding in findings],
        "change": [finding.change for finding in findings],
        "seq": [finding.seq for finding in findings],
        "ts_us": [finding.ts_us for finding in findings],
        "permitted_by": [finding.permitted_by for finding in findings],
        "known_bug": [labels(finding.known_bugs) for finding in findings],
        "detail": [None if finding.detail is None else json.dumps(finding.detail) for finding in findings],
        "evidence": [finding.evidence for finding in findings],
        "what": [words.what for words in worded],
        "against": [words.against or None for words in worded],
        "why": [words.why for words in worded],
        "remedy": [words.remedy or None for words in worded],
        "explanation": [words.sentence for words in worded],
    }


def metrics(topic: str, subscription: str, rules: Sequence[RuleName], found: Iterable[RuleFindings]) -> Rows:
    """A row of `metrics` for each rule of the profile, including rules without findings or checks.

    Args:
        topic: the topic partition.
        subscription: its subscription.
        rules: the rules of the profile.
        found: the findings of all parts; several parts may check one rule.
    """
    totals = {rule: dict.fromkeys(("checked", *COUNT_COLUMNS), 0) for rule in rules}
    for findings in found:
        total = totals[findings.rule]
        total["checked"] += findings.checked
        for column, severity in COUNT_COLUMNS.items():
            total[column] += findings.counts.get(severity, 0)
    return [{"topic": topic, "subscription": subscription, "rule": rule, **totals[rule]} for rule in rules]
