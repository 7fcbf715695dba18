"""Rows of `violations` and `metrics`, whatever part of the audit the findings come from.

Each source hands over what it found by rule, as `RuleFindings`; the dispatch rules do so in `rows.dispatches`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.contract.rules import RuleName
from pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES, Severity
from pipeline.replay.verdicts.naming import Rows


class RuleFindings(NamedTuple):
    """What one source found of one rule on one subscription.

    Attributes:
        rule: its name.
        checked: how often it was asked.
        counts: how many findings there are of each severity, all of them.
        worst: findings with their evidence, the worst first, as many as were asked for: columns of `violations`
            but for `rule`, `topic` and `subscription`.
    """

    rule: RuleName
    checked: int
    counts: Mapping[Severity, int]
    worst: Rows


def severities(rows: Rows) -> Counter[Severity]:
    """How many findings there are of each severity."""
    return Counter(severity for row in rows for severity in SEVERITIES if severity == row["severity"])


def violations(topic: str, subscription: str, found: Iterable[RuleFindings]) -> Rows:
    """A row for each finding that is kept with its evidence."""
    return [
        {"rule": of_rule.rule, "topic": topic, "subscription": subscription, **row}
        for of_rule in found
        for row in of_rule.worst
    ]


def metrics(topic: str, subscription: str, rules: Sequence[RuleName], found: Iterable[RuleFindings]) -> Rows:
    """A row for each rule that the broker is held to, also where nothing was found or nothing looked for.

    Args:
        topic: the topic partition.
        subscription: its subscription.
        rules: those of the profile.
        found: of any sources; several may look for one rule.
    """
    totals = {rule: dict.fromkeys(("checked", *COUNT_COLUMNS), 0) for rule in rules}
    for of_rule in found:
        total = totals[of_rule.rule]
        total["checked"] += of_rule.checked
        for column, severity in COUNT_COLUMNS.items():
            total[column] += of_rule.counts.get(severity, 0)
    return [{"topic": topic, "subscription": subscription, "rule": rule, **totals[rule]} for rule in rules]
