"""Traces of public reports under the versions of other releases: a fix lies on branches, not above a number.

What is right on which release: contract 2.2, 2.4, 3.9 to 3.12, 6.3.
"""

import pytest
from public_reports import judged


@pytest.mark.parametrize("version", ["4.0.0", "4.0.6", "4.1.0"])
def test_double_registration_is_known_before_its_fix(version: str) -> None:
    assert judged("reports/r23845-4.1.0", version).verdict == "known_bug"


@pytest.mark.parametrize("version", ["4.0.7", "4.0.14", "4.1.2", "4.2.0", "4.2.5", "5.0.0-M1", "5.0.1"])
def test_double_registration_is_a_violation_after_its_fix(version: str) -> None:
    assert judged("reports/r23845-4.1.0", version).verdict == "violation"


@pytest.mark.parametrize("version", ["3.0.13", "3.1.3", "3.2.4", "3.3.8", "4.0.6", "4.1.0"])
def test_gap_inside_of_one_consumer_is_known_before_its_fix(version: str) -> None:
    assert judged("reports/r24730-4.1.0", version).verdict == "known_bug"


@pytest.mark.parametrize("version", ["3.0.14", "3.0.17", "3.3.9", "4.0.7", "4.1.1", "4.2.0", "5.0.0-M1"])
def test_gap_inside_of_one_consumer_is_a_violation_after_its_fix(version: str) -> None:
    assert judged("reports/r24730-4.1.0", version).verdict == "violation"


@pytest.mark.parametrize("version", ["4.0.11", "4.0.14", "4.2.2", "4.2.4", "5.0.0-M1"])
def test_hash_drains_on_past_mark_delete_where_only_administrators_release(version: str) -> None:
    assert judged("reports/r25592-kept-4.0.12", version).verdict == "clean"
    assert judged("reports/r25592-released-4.2.1", version).rules["single_holder"]["violation"] == 1


@pytest.mark.parametrize("version", ["4.0.3", "4.0.10", "4.1.0", "4.1.3", "4.2.0", "4.2.1"])
def test_any_move_of_mark_delete_releases_before(version: str) -> None:
    assert judged("reports/r25592-released-4.2.1", version).verdict == "clean"


@pytest.mark.parametrize("version", ["3.0.0", "3.0.2", "3.1.0", "3.1.2", "3.2.0"])
def test_ring_without_a_separator_is_that_of_the_oldest_releases(version: str) -> None:
    rules = judged("reports/r22050-3.1.1", version).rules
    assert (rules["ownership"]["checked"], rules["ownership"]["violation"]) == (60, 0)
    assert rules["assignment_mismatch"]["violation"] == 0


@pytest.mark.parametrize("version", ["3.0.3", "3.0.6", "3.1.3", "3.2.1", "3.2.4", "3.3.0"])
def test_ring_with_a_separator_is_that_of_the_releases_between(version: str) -> None:
    rules = judged("reports/r22053-3.3.1", version).rules
    assert (rules["ownership"]["checked"], rules["ownership"]["violation"]) == (60, 0)
    assert rules["assignment_mismatch"]["violation"] == 0


@pytest.mark.parametrize("version", ["3.0.8", "3.0.17", "3.3.2", "3.3.9"])
def test_ring_with_name_indexes_is_that_of_the_newest_3(version: str) -> None:
    rules = judged("reports/ctl-3.0.7", version).rules
    assert (rules["ownership"]["checked"], rules["ownership"]["violation"]) == (60, 0)
    assert rules["assignment_mismatch"]["violation"] == 0


@pytest.mark.parametrize(
    ("name", "version", "severity"),
    [
        ("r26236-4.0.8", "4.0.12", "known_bug"),
        ("r26236-4.0.8", "4.0.13", "violation"),
        ("r26236-4.0.8", "4.1.3", "known_bug"),
        ("r26236-4.0.8", "4.2.3", "known_bug"),
        ("r26236-4.0.8", "4.2.4", "violation"),
        ("r26236-4.0.8", "5.0.0-M1", "known_bug"),
        ("r26236-4.0.8", "5.0.0-M2", "violation"),
        ("r26268-4.2.4", "4.0.13", "known_bug"),
        ("r26268-4.2.4", "4.0.14", "violation"),
        ("r26268-4.2.4", "4.1.3", "known_bug"),
        ("r26268-4.2.4", "4.2.5", "violation"),
        ("r26268-4.2.4", "5.0.0-M2", "violation"),
    ],
)
def test_stall_at_the_end_of_a_topic_is_known_up_to_its_fix(name: str, version: str, severity: str) -> None:
    stalled = judged(f"reports/{name}", version).rules["stalled"]
    assert {known: stalled[known] > 0 for known in ("known_bug", "violation")} == {
        "known_bug": severity == "known_bug",
        "violation": severity == "violation",
    }
