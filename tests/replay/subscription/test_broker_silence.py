"""When a broker wrote nothing although snapshots were due."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.evidence.times import BrokerSilence

SECOND_US = 1_000_000
FROM_US, TO_US = 0, 10**12


def silence_of(
    rows: list[int], snapshots: list[int], changes: list[int] | None = None, cuts: tuple[int, ...] = ()
) -> BrokerSilence:
    """That of rows, snapshots and changes of members at some times, in parts that end before the indexes `cuts`."""
    noted, kinds = BrokerSilence(), {"row": rows, "change": changes or [], "stats": snapshots}
    whole = sorted((at, kind) for kind, times in kinds.items() for at in times)
    edges = [0, *sorted({at for at in cuts if at < len(whole)}), len(whole)]
    for begin, end in pairwise(edges):
        part = [(seq, *whole[seq]) for seq in range(begin, end)]
        if part:
            noted.note(
                np.array([at for _, at, _ in part], dtype=np.int64),
                [StatsRow(seq, at, "{}") for seq, at, kind in part if kind == "stats"],
                [_change(seq, at) for seq, at, kind in part if kind == "change"],
            )
    return noted


def silent_us(noted: BrokerSilence, from_us: int, to_us: int) -> int:
    return sum(end - begin for begin, end in noted.within(from_us, to_us))


def _change(seq: int, at: int) -> MembershipEvent:
    return MembershipEvent(seq, at, "join", False, 1, "c1", False, False, (), "")


def every(us: int, times: int, since: int = 0) -> list[int]:
    return [since + us * number for number in range(times)]


def test_a_missing_snapshot_is_a_silence() -> None:
    # The last snapshot is at 10 s, and the next one at 13 s instead of 11 s.
    noted = silence_of([], every(SECOND_US, 11) + every(SECOND_US, 3, 13 * SECOND_US))
    assert silent_us(noted, FROM_US, TO_US) == 3 * SECOND_US
    assert silent_us(noted, 11 * SECOND_US, 12 * SECOND_US) == SECOND_US


def test_any_row_shows_that_the_broker_ran() -> None:
    late = every(SECOND_US, 11) + every(SECOND_US, 3, 13 * SECOND_US)
    assert silent_us(silence_of([11 * SECOND_US, 12 * SECOND_US], late), FROM_US, TO_US) == 0


def test_nothing_is_due_where_snapshots_have_no_timer() -> None:
    assert silent_us(silence_of([0, 60 * SECOND_US], []), FROM_US, TO_US) == 0
    assert silent_us(silence_of([60 * SECOND_US], every(SECOND_US, 5)), FROM_US, TO_US) == 0


def test_irregular_snapshots_have_no_timer() -> None:
    taken = [2**number * 1_000 for number in range(20)]
    assert silent_us(silence_of([taken[-1] + 6_000 * SECOND_US], taken), FROM_US, TO_US) == 0


def test_snapshots_after_changes_are_never_due() -> None:
    changes = every(SECOND_US, 20)
    taken = [at + 10_000 for at in changes]
    assert silent_us(silence_of([60 * SECOND_US], taken, changes), FROM_US, TO_US) == 0


def test_snapshots_after_changes_do_not_hurry_the_timer() -> None:
    changes = [at + 300_000 for at in every(SECOND_US, 6)]
    taken = [at + 10_000 for at in changes]
    assert silent_us(silence_of([], every(SECOND_US, 20) + taken, changes), FROM_US, TO_US) == 0


def test_a_silence_does_not_hide_the_next_one() -> None:
    snapshots = every(SECOND_US, 11) + every(SECOND_US, 3, 15 * SECOND_US) + every(SECOND_US, 3, 22 * SECOND_US)
    assert silent_us(silence_of([], snapshots), FROM_US, TO_US) == 10 * SECOND_US


@given(
    st.lists(st.integers(0, 60_000), max_size=40),
    st.lists(st.integers(0, 60_000), min_size=12, max_size=30, unique=True),
    st.lists(st.integers(0, 60_000), max_size=5),
    st.lists(st.integers(1, 80), max_size=8),
)
def test_parts_change_nothing(rows: list[int], snapshots: list[int], changes: list[int], cuts: list[int]) -> None:
    whole, parts = silence_of(rows, snapshots, changes), silence_of(rows, snapshots, changes, tuple(cuts))
    for begin in range(0, 60_000, 1_000):
        assert silent_us(whole, begin, begin + 1_000) == silent_us(parts, begin, begin + 1_000)
