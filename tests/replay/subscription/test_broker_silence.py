"""When a broker wrote nothing although snapshots were due."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.replay.evidence.broker_silence import BrokerSilence

SECOND_US = 1_000_000
FROM_US, TO_US = 0, 10**12


def silence_of(rows: list[int], snapshots: list[int], cuts: tuple[int, ...] = ()) -> BrokerSilence:
    """That of rows at some times, snapshots among them, in parts that end before the indexes `cuts`."""
    noted, times = BrokerSilence(), sorted([*rows, *snapshots])
    edges = [0, *sorted({at for at in cuts if at < len(times)}), len(times)]
    for begin, end in pairwise(edges):
        part = times[begin:end]
        if part:
            noted.note(np.array(part, dtype=np.int64), [at for at in part if at in snapshots])
    return noted


def every(us: int, times: int, since: int = 0) -> list[int]:
    return [since + us * number for number in range(times)]


def test_a_missing_snapshot_is_a_silence() -> None:
    # The last snapshot is at 10 s, and the next one at 13 s instead of 11 s.
    noted = silence_of([], every(SECOND_US, 11) + every(SECOND_US, 3, 13 * SECOND_US))
    assert noted.within(FROM_US, TO_US) == 3 * SECOND_US
    assert noted.within(11 * SECOND_US, 12 * SECOND_US) == SECOND_US


def test_any_row_shows_that_the_broker_ran() -> None:
    late = every(SECOND_US, 11) + every(SECOND_US, 3, 13 * SECOND_US)
    assert silence_of([11 * SECOND_US, 12 * SECOND_US], late).within(FROM_US, TO_US) == 0


def test_nothing_is_due_where_snapshots_have_no_timer() -> None:
    assert silence_of([0, 60 * SECOND_US], []).within(FROM_US, TO_US) == 0
    assert silence_of([60 * SECOND_US], every(SECOND_US, 5)).within(FROM_US, TO_US) == 0


def test_snapshots_after_joins_do_not_hurry_the_timer() -> None:
    joins = [at + 10_000 for at in every(SECOND_US, 12)]
    assert silence_of([], every(SECOND_US, 13) + joins).within(FROM_US, TO_US) == 0


def test_a_silence_does_not_hide_the_next_one() -> None:
    snapshots = every(SECOND_US, 11) + every(SECOND_US, 3, 15 * SECOND_US) + every(SECOND_US, 3, 22 * SECOND_US)
    assert silence_of([], snapshots).within(FROM_US, TO_US) == 10 * SECOND_US


@given(
    st.lists(st.integers(0, 60_000), min_size=1, max_size=40),
    st.lists(st.integers(0, 60_000), min_size=12, max_size=30, unique=True),
    st.lists(st.integers(1, 70), max_size=8),
)
def test_parts_change_nothing(rows: list[int], snapshots: list[int], cuts: list[int]) -> None:
    whole, parts = silence_of(rows, snapshots), silence_of(rows, snapshots, tuple(cuts))
    for begin in range(0, 60_000, 1_000):
        assert whole.within(begin, begin + 1_000) == parts.within(begin, begin + 1_000)
