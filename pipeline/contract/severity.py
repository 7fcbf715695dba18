"""What a finding can weigh, and what that makes of the whole run.

An ordered ladder on which the worst step wins. Two questions are asked of it and they differ: the verdict
says what is known of a trace, `--fail-on` says what its caller wants to be woken for.
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
"""The columns of `metrics` that count findings, and what they count."""

# A known bug is a broken contract with a name. A nightly job must not go green because the break has been
# explained, so both levels mean both; from there on down each level takes in everything above it.
_FAILS: dict[FailOn, frozenset[Severity]] = {
    "violation": frozenset({"violation", "known_bug"}),
    "known_bug": frozenset({"violation", "known_bug"}),
    "not_provable": frozenset({"violation", "known_bug", "not_provable"}),
    "permitted": frozenset({"violation", "known_bug", "not_provable", "permitted"}),
    "info": frozenset(SEVERITIES),
    "never": frozenset(),
}


def worst_verdict(found: Iterable[Severity | RunVerdict]) -> RunVerdict:
    """The verdict that the worst of `found` leads to.

    What an exception of the contract permits, and facts outside of it, leave a trace clean.
    """
    present = set(found)
    return next((verdict for verdict in reversed(VERDICTS) if verdict in present), "clean")


def fails(fail_on: FailOn, found: Iterable[Severity]) -> bool:
    """Whether something in `found` is at or above the level that the caller chose."""
    return not _FAILS[fail_on].isdisjoint(found)
