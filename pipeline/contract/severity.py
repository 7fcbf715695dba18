"""The severities of findings, and the verdict on a whole run.

Severities are ordered, and the worst one decides. The verdict and `--fail-on` use them differently: the verdict says
what is known of a trace, `--fail-on` says which findings make the command fail.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Severity = Literal["info", "permitted", "not_provable", "known_bug", "violation"]
RunVerdict = Literal["clean", "not_provable", "known_bug", "violation"]
FailOn = Literal["violation", "known_bug", "not_provable", "permitted", "info", "never"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
WORST_FIRST: tuple[Severity, ...] = SEVERITIES[::-1]
VERDICTS: tuple[RunVerdict, ...] = get_args(RunVerdict)

COUNT_COLUMNS: Mapping[str, Severity] = {
    "violations": "violation",
    "permitted": "permitted",
    "known_bug": "known_bug",
    "not_provable": "not_provable",
    "info": "info",
}
"""The columns of `metrics` that count findings, and the severity that each counts."""

# A known bug breaks the contract too. A nightly job must not succeed because the break is explained, so the levels
# `violation` and `known_bug` mean the same; each level below includes everything above it.
_FAILS: dict[FailOn, frozenset[Severity]] = {
    "violation": frozenset({"violation", "known_bug"}),
    "known_bug": frozenset({"violation", "known_bug"}),
    "not_provable": frozenset({"violation", "known_bug", "not_provable"}),
    "permitted": frozenset({"violation", "known_bug", "not_provable", "permitted"}),
    "info": frozenset(SEVERITIES),
    "never": frozenset(),
}


def worst_verdict(found: Iterable[Severity | RunVerdict]) -> RunVerdict:
    """The verdict on a run with these severities or verdicts: the worst of them.

    A trace with nothing but permitted findings and facts outside of the contract is clean.
    """
    present = set(found)
    return next((verdict for verdict in reversed(VERDICTS) if verdict in present), "clean")


def fails(fail_on: FailOn, found: Iterable[Severity]) -> bool:
    """Whether one of the severities is at or above the level that the caller chose."""
    return not _FAILS[fail_on].isdisjoint(found)
