"""The verdict on a finding: a severity and its reason."""

from functools import lru_cache
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity


class FindingVerdict(NamedTuple):
    """The verdict on one finding."""

    severity: Severity  # the severity of the finding
    # The exception of contract 9.3 that it matches; a known bug may match one too.
    permitted_by: ExceptionId | None = None
    # The bugs of the broker that explain it, the closest first (ids of `conf/known_bugs.toml`).
    known_bugs: tuple[str, ...] = ()
    because: str = ""  # the reason for the severity that the trace shows, as a clause; may be empty


UNEXPLAINED: Final = FindingVerdict("violation")
INFORMATION: Final = FindingVerdict("info")


def milder(one: FindingVerdict, other: FindingVerdict) -> FindingVerdict:
    """The milder of two verdicts; the first if they are equally mild."""
    return min(one, other, key=lambda verdict: SEVERITIES.index(verdict.severity))


def unexplained(because: str) -> FindingVerdict:
    """The verdict `violation`, with the reason why no exception or bug explains the finding."""
    return FindingVerdict("violation", because=because)


@lru_cache
def not_provable(because: str) -> FindingVerdict:
    """The verdict `not_provable`, with what the trace does not show; cached, because many findings share a reason."""
    return FindingVerdict("not_provable", because=because)


def permitted_by(exception: ExceptionId, *known_bugs: str) -> FindingVerdict:
    """The verdict `permitted` by an exception of the contract, with the bugs that belong to the exception."""
    return FindingVerdict("permitted", exception, known_bugs, f"due to {EXCEPTIONS[exception]}")
