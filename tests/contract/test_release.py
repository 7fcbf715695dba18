"""The order of releases, and lists of them by branch."""

import pytest

from dispatch_audit.pipeline.contract.release import Release, by_branch, reached
from dispatch_audit.pipeline.errors import DispatchAuditError

CLEAN_UP = by_branch(("4.0.11", "4.2.2", "5.0.0-M1"), "the list")


def test_releases_come_in_the_order_of_their_numbers() -> None:
    assert Release("4.0") == Release("4.0.0-rc-1") == Release("4.0.0-SNAPSHOT")
    assert Release("4.0.0") < Release("4.0.9") < Release("4.0.10") < Release("4.0.10.1") < Release("4.1.0")


def test_milestones_come_before_the_release_of_their_numbers() -> None:
    texts = ["4.2.5", "5.0.0-M1", "5.0.0-M2", "5.0.0-M10", "5.0.0", "5.0.1"]
    assert [str(release) for release in sorted(map(Release, reversed(texts)))] == texts
    assert Release("5.0.0-M1").branch == Release("5.0.1").branch


@pytest.mark.parametrize("text", ["four", "", "4.x", "-M1"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Release(text)


@pytest.mark.parametrize(
    ("release", "has_it"),
    [
        ("4.0.10", False),
        ("4.0.11", True),
        ("4.1.3", False),
        ("4.1.99", False),
        ("4.2.1", False),
        ("4.2.2", True),
        ("5.0.0-M1", True),
        ("5.1.0", True),
        ("3.3.9", False),
    ],
)
def test_a_change_reaches_each_branch_in_a_release_of_its_own_or_never(release: str, has_it: bool) -> None:
    assert reached(Release(release), CLEAN_UP) is has_it


def test_nothing_is_reached_without_a_release() -> None:
    assert not reached(Release("5.0.1"), ())


@pytest.mark.parametrize("texts", [("4.0.7", "4.0.11"), ("4.2.2", "4.0.11"), ("4.0.11", "soon")])
def test_a_list_has_one_release_for_each_branch_the_oldest_first(texts: tuple[str, ...]) -> None:
    with pytest.raises(DispatchAuditError, match="the list"):
        by_branch(texts, "the list")
