import pytest

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES, Severity, worst_verdict
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


def test_every_severity_is_counted_in_a_column() -> None:
    assert sorted(COUNT_COLUMNS.values()) == sorted(SEVERITIES)
    assert set(COUNT_COLUMNS) < {column.name for column in METRICS.columns}
