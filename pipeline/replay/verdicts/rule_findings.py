"""The findings of one part of the audit by rule: what each part hands over."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding

ALL: Final = 0
"""As a limit on findings: no limit."""


class RuleFindings(NamedTuple):
    """The findings of one part of the audit about one rule on one subscription.

    Attributes:
        rule: the name of the rule.
        checked: how often the rule was checked.
        counts: the number of findings by severity, including those without evidence here.
        worst: the worst findings with their evidence, worst first.
    """

    rule: RuleName
    checked: int
    counts: Mapping[Severity, int]
    worst: Sequence[JudgedFinding]


def severities(found: Iterable[JudgedFinding]) -> Counter[Severity]:
    """The number of findings by severity."""
    return Counter(finding.severity for finding in found)
