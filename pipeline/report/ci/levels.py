"""Maps severities to the levels of CI systems: error, warning and note."""

from collections.abc import Mapping
from typing import Literal

from dispatch_audit.pipeline.contract.severity import WORST_FIRST, Severity
from dispatch_audit.pipeline.report.summary import GroupCounts, RuleCounts

Level = Literal["error", "warning", "note"]

LEVELS: Mapping[Severity, Level] = {
    # A known bug breaks the contract too, as for `--fail-on`.
    "violation": "error",
    "known_bug": "error",
    "not_provable": "warning",
    "permitted": "note",
    "info": "note",
}
"""SARIF's names of levels (2.1.0, 3.27.10)."""


def tally(findings: Mapping[Severity, int]) -> str:
    """Returns the numbers of findings as text, the worst first, such as `13 known bug, 2 permitted`."""
    present = ((severity, findings[severity]) for severity in WORST_FIRST if findings[severity])
    return ", ".join(f"{number:,} {severity.replace('_', ' ')}" for severity, number in present)


def tally_of(counts: RuleCounts | GroupCounts) -> str:
    """Returns the numbers of the findings of a rule as text, and how many of them the baseline accepts."""
    accepted = sum(counts.accepted.values())
    return f"{tally(counts.findings)}{f' ({accepted:,} accepted by the baseline)' if accepted else ''}"
