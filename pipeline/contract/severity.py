"""The severities of findings, and the verdict on a whole run.

Severities are ordered, and the worst one decides. The verdict and `--fail-on` (`contract.fail_on`) use them
differently: the verdict says what is known of a trace, `--fail-on` says which findings make the command fail.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Severity = Literal["info", "permitted", "not_provable", "known_bug", "violation"]
RunVerdict = Literal["clean", "not_provable", "known_bug", "violation"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
WORST_FIRST: tuple[Severity, ...] = SEVERITIES[::-1]
VERDICTS: tuple[RunVerdict, ...] = get_args(RunVerdict)
NEED_A_LOOK: frozenset[Severity] = frozenset({"violation", "known_bug", "not_provable"})
"""The severities of findings that a reader has to look at."""

COUNT_COLUMNS: Mapping[str, Severity] = {
    "violations": "violation",
    "permitted": "permitted",
    "known_bug": "known_bug",
    "not_provable": "not_provable",
    "info": "info",
}
"""The columns of `metrics` that count findings, and the severity that each counts."""


def worst_verdict(found: Iterable[Severity | RunVerdict]) -> RunVerdict:
    """The verdict on a run with these severities or verdicts: the worst of them.

    A trace with nothing but permitted findings and facts outside of the contract is clean.
    """
    present = set(found)
    return next((verdict for verdict in reversed(VERDICTS) if verdict in present), "clean")
