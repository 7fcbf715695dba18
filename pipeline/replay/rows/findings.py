"""Rows of `violations` and `metrics` from the findings of all parts of the audit."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Final

from dispatch_audit.pipeline.contract.known_bugs import labels
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS
from dispatch_audit.pipeline.replay.verdicts.finding import Columns, JudgedFinding, Rows, RuleFindings

# The fields of a finding that are columns; the other fields become several columns, or text.
_AS_THEY_ARE: Final = [
    field.name
    for field in fields(JudgedFinding)
    if field.name not in ("explanation", "known_bugs", "assumes", "detail")
]


def violations(found: Iterable[RuleFindings], per_rule_max: int) -> Columns:
    """The columns of `violations`: a row for each of the worst findings of a rule and part, at most so many."""
    kept = [(of_rule.rule, finding) for of_rule in found for finding in of_rule.worst[: per_rule_max or None]]
    if not kept:
        return {}
    rules, findings = zip(*kept, strict=True)
    worded = [finding.explanation for finding in findings]
    return {
        "rule": rules,
        **{name: [getattr(finding, name) for finding in findings] for name in _AS_THEY_ARE},
        "known_bug": [labels(finding.known_bugs) for finding in findings],
        "assumes": [[of._asdict() for of in finding.assumes] or None for finding in findings],
        "detail": [None if finding.detail is None else json.dumps(finding.detail) for finding in findings],
        "what": [words.what for words in worded],
        "against": [words.against or None for words in worded],
        "why": [words.why for words in worded],
        "remedy": [words.remedy or None for words in worded],
        "explanation": [words.sentence for words in worded],
    }


def metrics(rules: Sequence[RuleName], found: Iterable[RuleFindings], completeness: float) -> Rows:
    """A row of `metrics` for each rule of the profile, even without findings; several parts may check one rule."""
    totals = {rule: dict.fromkeys(("checked", *COUNT_COLUMNS), 0) for rule in rules}
    for findings in found:
        total = totals[findings.rule]
        total["checked"] += findings.checked
        for column, severity in COUNT_COLUMNS.items():
            total[column] += findings.counts.get(severity, 0)
    return [{"rule": rule, **totals[rule], "completeness": completeness} for rule in rules]


_IDENTIFYING: Final = (
    "rule",
    "topic",
    "subscription",
    "broker",
    "seq",
    "sticky_hash",
    "key_id",
    "ledger_id",
    "entry_id",
    "consumer",
    "other_consumer",
)


def with_finding_ids(columns: Columns) -> Columns:
    """The columns of `violations` of one subscription with `finding_id`, 12 hex digits.

    The digest covers the events, with the recorders' own seqs and numbers, and not the verdict or explanation, so a
    finding keeps its id if a later version judges or words it differently. Findings with the same events are numbered.
    """
    rows = len(columns["rule"])
    seen: Counter[str] = Counter()
    ids = []
    for row in zip(*(columns.get(name, [None] * rows) for name in _IDENTIFYING), strict=True):
        identity = json.dumps(row)
        ids.append(hashlib.sha256(f"{identity} {seen[identity]}".encode()).hexdigest()[:12])
        seen[identity] += 1
    return {"finding_id": ids, **columns}
