"""How a trace is cut into batches, which is an accident of its files and of Spark, must change nothing."""

import random
from typing import TypeAlias

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import HIGH, HIGHEST, LOW, LOWEST, SKEW_US, Columns, Log, replayed

KEYS = [LOWEST, LOW, HIGH, HIGHEST]
SIDES = ["start end", "start end", "start", "end"]

# What happens, two choices, which sides are recorded, and how long it takes and is apart from what follows.
Operation: TypeAlias = tuple[str, int, int, str, int, int]

pauses = st.sampled_from([0, 10, 1_000, SKEW_US // 2, SKEW_US, SKEW_US + 1, 3 * SKEW_US, 6_000_000])
operations = st.lists(
    st.tuples(
        st.sampled_from(["publish", "dispatch", "dispatch", "ack", "join", "leave", "leave of the broker", "reset"]),
        st.integers(0, 5),
        st.integers(0, 3),
        st.sampled_from(SIDES),
        pauses,
        pauses,
    ),
    min_size=15,
    max_size=50,
)


def rows_of(operations: list[Operation], dispatched: str) -> list[Columns]:
    """Every interval begins where its turn comes; its end comes later, among what follows.

    Args:
        operations: what happens, in order.
        dispatched: the sides of a dispatch that the recorder writes: it writes them always or never.
    """
    log = Log(step_us=0)
    ends: list[Columns] = []
    joined = 1
    log.join(joined)
    for kind, a, b, any_sides, width_us, pause_us in operations:
        sides = dispatched if kind == "dispatch" else any_sides
        before = len(log.rows)
        if kind == "publish":
            log.publish(a, KEYS[a % 4])
        elif kind == "dispatch":
            log.dispatch(1 + b, a, KEYS[a % 4], phases=sides)
        elif kind == "ack":
            log.ack(1 + b, a, phases=sides)
        elif kind == "join":
            joined += 1
            log.join(joined, phases=sides)
        elif kind == "leave":
            log.leave(1 + b, phases=sides)
        elif kind == "leave of the broker":
            log.leave(1 + b, phases="start", reason="closed_by_broker")
        else:
            log.reset(["seek", "expire"][b % 2], phases=sides)
        if sides == "start end" and len(log.rows) - before == 2:
            ends.append({**log.rows.pop(), "ts_us": log.now_us + width_us})
        _pause(log, pause_us)
    rows = [*log.rows, *ends]
    rows.sort(key=lambda row: (row["ts_us"], row["seq"]))
    return [{**row, "seq": seq} for seq, row in enumerate(rows, 1)]


def _pause(log: Log, pause_us: int) -> None:
    """Something unrelated goes on about every change, as it does while consumers are connected."""
    until_us = log.now_us + pause_us
    for away_us in (SKEW_US // 2, SKEW_US, 3 * SKEW_US // 2):
        if away_us < pause_us:
            log.now_us += SKEW_US // 2
            log.write("stats")
    for away_us in (3 * SKEW_US // 2, SKEW_US, SKEW_US // 2):
        if log.now_us < until_us - away_us:
            log.now_us = until_us - away_us
            log.write("stats")
    log.now_us = until_us


# The same schedules in every run: which of two changes between two rows is reported first is not pinned down.
@pytest.mark.heavy
@examples(150, derandomize=True)
@given(operations, st.sampled_from(["start end", "end"]), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_cutting_changes_nothing(
    operations: list[Operation], dispatched: str, rows_per_batch: int, chance: random.Random
) -> None:
    rows = rows_of(operations, dispatched)
    expected = replayed(rows).bytes
    assert replayed(rows, rows_per_batch=rows_per_batch).bytes == expected
    assert replayed(chance.sample(rows, len(rows)), rows_per_batch=rows_per_batch).bytes == expected
