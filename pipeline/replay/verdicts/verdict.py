"""What a finding weighs, and why."""

from typing import Final, NamedTuple

from pipeline.contract.exceptions import EXCEPTIONS, ExceptionId
from pipeline.contract.severity import Severity


class FindingVerdict(NamedTuple):
    """The judgement on one finding.

    Attributes:
        severity: what it weighs.
        permitted_by: the exception of contract 9.3 that it matches; also beside a known bug that has one.
        known_bugs: flaws of the broker that explain it, the closest first (ids of `conf/known_bugs.toml`).
        because: what in the trace speaks for this severity, as a clause; empty where there is nothing to add.
    """

    severity: Severity
    permitted_by: ExceptionId | None = None
    known_bugs: tuple[str, ...] = ()
    because: str = ""


UNEXPLAINED: Final = FindingVerdict("violation")
INFORMATION: Final = FindingVerdict("info")


def unexplained(because: str) -> FindingVerdict:
    """A violation of which there is more to say than that nothing explains it."""
    return FindingVerdict("violation", because=because)


def permitted_by(exception: ExceptionId, *known_bugs: str) -> FindingVerdict:
    """What an exception of the contract permits; a bug that belongs to it may be named beside it."""
    return FindingVerdict("permitted", exception, known_bugs, f"due to {EXCEPTIONS[exception]}")
