import pytest

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES, FailOn, Severity, fails, worst_verdict
from dispatch_audit.pipeline.tables.schemas import METRICS


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([], "clean"),
        (["info", "permitted"], "clean"),
        (["permitted", "not_provable"], "not_provable"),
        (["not_provable", "known_bug"], "known_bug"),
        (["known_bug", "violation", "info"], "violation"),
    ],
)
def test_the_worst_finding_is_the_verdict(found: list[Severity], verdict: str) -> None:
    assert worst_verdict(found) == verdict


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [
        ("violation", {"violation", "known_bug"}),
        ("known_bug", {"violation", "known_bug"}),
        ("not_provable", {"violation", "known_bug", "not_provable"}),
        ("permitted", {"violation", "known_bug", "not_provable", "permitted"}),
        ("info", set(SEVERITIES)),
        ("never", set()),
    ],
)
def test_a_level_takes_in_what_is_worse(fail_on: FailOn, failing: set[Severity]) -> None:
    assert {severity for severity in SEVERITIES if fails(fail_on, [severity])} == failing


def test_every_severity_is_counted_in_a_column() -> None:
    assert sorted(COUNT_COLUMNS.values()) == sorted(SEVERITIES)
    assert set(COUNT_COLUMNS) < {column.name for column in METRICS.columns}
