"""Rows of `violations` and `metrics` from the findings of all parts of the audit.

Each part hands over its findings by rule, as `RuleFindings`; `dispatch_findings` does so for the kernel's rules.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES, Severity
from dispatch_audit.pipeline.replay.verdicts.naming import Rows


class RuleFindings(NamedTuple):
    """The findings of one part of the audit about one rule on one subscription.

    Attributes:
        rule: the name of the rule.
        checked: how often the rule was checked.
        counts: the number of findings by severity, including those without evidence here.
        worst: the worst findings with their evidence, worst first, up to the limit: columns of `violations` without
            `rule`, `topic` and `subscription`.
    """

    rule: RuleName
    checked: int
    counts: Mapping[Severity, int]
    worst: Rows


def severities(rows: Rows) -> Counter[Severity]:
    """The number of findings by severity."""
    return Counter(severity for row in rows for severity in SEVERITIES if severity == row["severity"])


def violations(topic: str, subscription: str, found: Iterable[RuleFindings]) -> Rows:
    """A row of `violations` for each finding that is kept with its evidence."""
    return [
        {"rule": findings.rule, "topic": topic, "subscription": subscription, **row}
        for findings in found
        for row in findings.worst
    ]


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
