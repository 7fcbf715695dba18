"""The two answers: which one follows from findings, waits and what is missing."""

from collections.abc import Collection

import pytest

from dispatch_audit.pipeline.contract.answers import (
    Missing,
    Order,
    Progress,
    is_expected,
    order_of,
    progress_of,
    worst_order,
    worst_progress,
)
from dispatch_audit.pipeline.contract.severity import Severity


@pytest.mark.parametrize(
    ("found", "dispatches", "missing", "answer"),
    [
        ((), 9, (), "kept"),
        (("permitted", "info"), 9, (), "kept"),
        ((), 0, (), "nothing_sent"),
        ((), 9, ("keys",), "not_provable"),
        (("not_provable",), 9, (), "not_provable"),
        (("not_provable", "known_bug"), 9, (), "known_bug"),
        (("known_bug", "violation"), 9, ("keys",), "broken"),
    ],
)
def test_order(found: Collection[Severity], dispatches: int, missing: Collection[Missing], answer: Order) -> None:
    assert order_of(found, dispatches, missing) == answer


@pytest.mark.parametrize(
    ("found", "held_up", "dispatches", "missing", "answer"),
    [
        ((), False, 9, (), "flowing"),
        ((), False, 0, (), "nothing_sent"),
        ((), False, 9, ("publishes",), "not_provable"),
        (("not_provable",), False, 9, (), "not_provable"),
        (("not_provable",), True, 9, ("publishes",), "held_up"),
        ((), True, 0, (), "held_up"),
        (("known_bug",), True, 9, (), "stalled"),
        (("violation",), False, 9, (), "stalled"),
    ],
)
def test_progress(
    found: Collection[Severity], held_up: bool, dispatches: int, missing: Collection[Missing], answer: Progress
) -> None:
    assert progress_of(found, held_up, dispatches, missing) == answer


def test_a_wait_that_users_asked_for_is_expected() -> None:
    assert is_expected("dispatch_rate_limit", 3)
    assert is_expected("delayed_delivery", 3)
    assert is_expected("no_owner", 0)
    assert not is_expected("no_owner", 1)
    assert not is_expected("no_permits", 0)


def test_the_worst_of_several_decides() -> None:
    assert worst_order(["kept", "not_provable", "nothing_sent"]) == "not_provable"
    assert worst_order(["kept", "nothing_sent"]) == "kept"
    assert worst_progress(["not_provable", "held_up", "flowing"]) == "held_up"
    assert (worst_order([]), worst_progress([])) == ("nothing_sent", "nothing_sent")
