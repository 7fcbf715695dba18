"""Rows of `violations` and `metrics` from the findings of all parts of the audit."""

import json
from collections.abc import Iterable, Sequence

from dispatch_audit.pipeline.contract.known_bugs import labels
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS
from dispatch_audit.pipeline.replay.verdicts.finding import RuleFindings
from dispatch_audit.pipeline.replay.verdicts.naming import Columns, Rows


def violations(found: Iterable[RuleFindings], per_rule_max: int) -> Columns:
    """The columns of `violations`: a row for each of the worst findings.

    Args:
        found: the findings of all parts.
        per_rule_max: how many findings of a rule and part become rows; `ALL`: every one.
    """
    kept = [(of_rule.rule, finding) for of_rule in found for finding in of_rule.worst[: per_rule_max or None]]
    if not kept:
        return {}
    rules, findings = zip(*kept, strict=True)
    worded = [finding.explanation for finding in findings]
    return {
        "rule": rules,
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


def metrics(rules: Sequence[RuleName], found: Iterable[RuleFindings], completeness: float) -> Rows:
    """A row of `metrics` for each rule of the profile, also without findings; several parts may check one rule."""
    totals = {rule: dict.fromkeys(("checked", *COUNT_COLUMNS), 0) for rule in rules}
    for findings in found:
        total = totals[findings.rule]
        total["checked"] += findings.checked
        for column, severity in COUNT_COLUMNS.items():
            total[column] += findings.counts.get(severity, 0)
    return [{"rule": rule, **totals[rule], "completeness": completeness} for rule in rules]
