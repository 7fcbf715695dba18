"""Drawn schedules of what real clusters do: none gives a false finding, and each fault that shows is found.

`run_schedules.py` runs thousands of them; a seed that is wrong is run again by `judged_schedule(seed, kind)`.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
from drawn_schedules import FAULTS, MS, NONE, S, drawn_schedule
from examples import share_of
from incomplete_rows import begun_later, with_gap
from judged_schedules import Judged, Missing, judged_schedule, simulated_rows

# Seeds of their own, so that nobody has tuned anything to them.
FIRST: Final = 3_900_000
WITHOUT_FAULT: Final = 400
OF_EACH_FAULT: Final = 40
MISSING_ROWS: Final = 120
# Fewer may leave no finding at all, and then the test proves nothing.
MISSING_ROWS_MIN: Final = 30

OPEN: Final[frozenset[tuple[str, int]]] = frozenset()
"""Schedules that are still judged wrongly. Whoever mends one takes it out; the test fails until then."""


def judged(kind: str, whole: int) -> list[Judged]:
    return [judged_schedule(seed, kind) for seed in range(FIRST, FIRST + share_of(whole))]


@pytest.mark.heavy
@pytest.mark.examples
def test_a_broker_without_a_fault_gives_no_false_finding() -> None:
    outcome = judged(NONE, WITHOUT_FAULT)

    assert {run.seed: run.false for run in outcome if run.false and (NONE, run.seed) not in OPEN} == {}


@pytest.mark.heavy
@pytest.mark.examples
@pytest.mark.parametrize("missing", [begun_later, with_gap])
def test_rows_that_are_missing_give_no_false_finding(missing: Missing) -> None:
    kinds = (NONE, "stuck_read", "no_read_after_writes")
    number = max(MISSING_ROWS_MIN, share_of(MISSING_ROWS))
    runs = [judged_schedule(seed, kinds[seed % len(kinds)], missing) for seed in range(FIRST, FIRST + number)]

    assert {(run.seed, run.kind): run.false for run in runs if run.false} == {}
    assert any(run.found for run in runs), "nothing was judged"


@pytest.mark.heavy
@pytest.mark.examples
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_that_shows_is_found(kind: str) -> None:
    outcome = judged(kind, OF_EACH_FAULT)

    wrong = {run.seed: (run.missed, run.false) for run in outcome if run.missed or run.false}
    assert {seed: why for seed, why in wrong.items() if (kind, seed) not in OPEN} == {}


@pytest.mark.heavy
@pytest.mark.examples
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_shows_in_some_schedule(kind: str) -> None:
    """Else the test above proves nothing."""
    assert any(judged_schedule(seed, kind).effect for seed in range(FIRST, FIRST + 5 * OF_EACH_FAULT))


@pytest.mark.heavy
@pytest.mark.examples
def test_open_schedules_are_still_judged_wrongly() -> None:
    runs = {(kind, seed): judged_schedule(seed, kind) for kind, seed in OPEN}
    assert {which for which, run in runs.items() if not run.missed and not run.false} == set()


def test_schedules_have_what_they_are_for() -> None:
    """Each of a hundred seeds draws some of it."""
    found: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + 100):
        schedule = drawn_schedule(seed)
        found.update({action.kind for action in schedule.workload.actions})
        found["delays"] += schedule.workload.deliver_at_us is not None
        found["rates"] += any("Throttling" in name for name in schedule.setup.broker)
        found[f"recorded {schedule.setup.recorded_settings}"] += 1

    wanted = ("settings", "unload", "seek", "skip", "expire", "clear", "hang", "delays", "rates")
    assert not [what for what in (*wanted, "recorded exactly", "recorded late", "recorded not") if found[what] < 3]


def test_what_may_have_been_skipped_shows_no_limit_that_is_passed() -> None:
    """A consumer of this seed holds 40 entries beyond its limit, and was sent all of them within a second of a skip."""
    seed, kind = 9_700_025, "over_consumer_limit"
    schedule = drawn_schedule(seed, kind)
    unskipped = [action for action in schedule.workload.actions if action.kind != "skip"]
    without = replace(schedule, workload=replace(schedule.workload, actions=unskipped))

    assert simulated_rows(schedule, seed)[1].over_consumer <= 0
    assert simulated_rows(without, seed)[1].over_consumer == 40


def test_only_snapshots_show_that_what_was_read_and_not_sent_came_before_a_join() -> None:
    """Entry 99 of this seed was read before its owner joined (F8), and nothing after 97 was sent until then."""
    seed, kind = 14_000_001, "joins_out_of_order"
    schedule = drawn_schedule(seed, kind)
    shown = replace(schedule, setup=replace(schedule.setup, stats_us=50 * MS))

    assert simulated_rows(schedule, seed)[1].certain.spans == []
    assert max(span.lasted_us for span in simulated_rows(shown, seed)[1].certain.spans) > 3 * S


@pytest.mark.parametrize("kind", [NONE, "stuck_read"])
def test_equal_seeds_give_equal_rows(kind: str) -> None:
    rows = [simulated_rows(drawn_schedule(FIRST, kind), FIRST)[2] for _ in range(2)]

    assert rows[0].equals(rows[1])
