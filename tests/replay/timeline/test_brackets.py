"""How the sides of membership changes find each other."""

import pytest

from dispatch_audit.pipeline.packing.membership_rows import ChangeKind, MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.timeline.brackets import WAIT_US_MAX, Bracket, Brackets, Side
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows

SKEW = 10
AMONG = Brackets(HeldRows(), SKEW)


def _row(seq: int, kind: ChangeKind, consumer: int = 1, *, late: bool = False, reason: str = "") -> MembershipEvent:
    return MembershipEvent(seq, seq * 100, kind, late, consumer, f"c{consumer}", False, False, (), reason)


def _sides(*rows: MembershipEvent) -> tuple[list[Side], list[tuple[int | None, int | None]]]:
    """What the rows turned out to be, and the seqs of the brackets that are open then."""
    membership = Brackets(HeldRows(), SKEW)
    sides = [membership.add(row) for row in rows]
    return sides, [(b.start and b.start.seq, b.end and b.end.seq) for b in membership.open]


def test_two_sides_make_a_bracket() -> None:
    sides, brackets = _sides(_row(1, "join"), _row(3, "join", late=True), _row(5, "leave"), _row(9, "leave", late=True))
    assert sides == [Side.FIRST, Side.SECOND, Side.FIRST, Side.SECOND]
    assert brackets == [(1, 3), (5, 9)]


def test_brackets_of_several_consumers_overlap_without_mixing() -> None:
    _, brackets = _sides(
        _row(1, "join", 1), _row(2, "join", 2), _row(3, "join", 2, late=True), _row(4, "join", 1, late=True)
    )
    assert brackets == [(1, 4), (2, 3)]


def test_a_late_side_alone_opens_a_bracket() -> None:
    sides, brackets = _sides(_row(3, "join", late=True), _row(9, "leave", late=True))
    assert sides == [Side.FIRST, Side.FIRST]
    assert brackets == [(None, 3), (None, 9)]


def test_a_consumer_leaves_once() -> None:
    sides, _ = _sides(
        _row(1, "join", late=True),
        _row(5, "leave", reason="closed_by_broker"),
        _row(6, "leave"),
        _row(7, "leave", late=True),
    )
    assert sides == [Side.FIRST, Side.FIRST, Side.REPEATED, Side.SECOND]


@pytest.mark.parametrize("late", [False, True])
def test_a_leave_of_nobody_waits_for_its_join(late: bool) -> None:
    assert _sides(_row(1, "leave", late=late)) == ([Side.EARLY], [])


def test_a_join_of_who_is_there_is_refused() -> None:
    sides, brackets = _sides(_row(1, "join"), _row(2, "join", late=True), _row(3, "join"))
    assert sides == [Side.FIRST, Side.SECOND, Side.REFUSED]
    assert brackets == [(1, 2)]


def test_why_a_consumer_left_is_known_from_either_side() -> None:
    membership = Brackets(HeldRows(), SKEW)
    membership.add(_row(1, "join"))
    membership.add(_row(5, "leave"))
    membership.add(_row(6, "leave", late=True, reason="connection_closed"))
    assert membership.open[-1].row.reason == "connection_closed"


@pytest.mark.parametrize(("there", "end"), [("c1", 6), ("other", 8)])
def test_who_comes_back_during_a_reset_joins_the_new_dispatcher(there: str, end: int) -> None:
    before = _row(1, "join")._replace(name=there)
    returns = _row(6, "join", 2)._replace(name="c1")
    _, brackets = _sides(before, _row(5, "reset", -1, reason="seek"), returns, _row(8, "reset", -1, late=True))
    assert brackets[1:] == [(5, end), (6, None)]


@pytest.mark.parametrize(("skew_us", "end"), [(200, 3), (201, None)])
def test_who_may_have_joined_before_a_reset_does_not_end_it(skew_us: int, end: int | None) -> None:
    # The only row of the join was written when it was over, up to the skew after the join itself.
    membership = Brackets(HeldRows(), skew_us)
    membership.add(_row(1, "reset", -1, reason="seek"))
    membership.add(_row(3, "join", late=True))
    assert (membership.open[0].end and membership.open[0].end.seq) == end


@pytest.mark.parametrize(
    ("bracket", "bounds"),
    [
        (Bracket(_row(1, "join"), AMONG, TracePoint(1, 100), TracePoint(9, 900)), (100, 900)),
        (Bracket(_row(1, "join"), AMONG, TracePoint(1, 100)), (100, 100 + SKEW)),
        (Bracket(_row(9, "join", late=True), AMONG, end=TracePoint(9, 900)), (900 - SKEW, 900)),
        (Bracket(_row(5, "leave", reason="closed_by_broker"), AMONG, TracePoint(5, 500)), (500 - SKEW, 500 + SKEW)),
    ],
    ids=["both sides", "start only", "end only", "closed by the broker"],
)
def test_what_bounds_the_moment_of_a_change(bracket: Bracket, bounds: tuple[int, int]) -> None:
    assert bracket.bounds_ts_us == bounds


@pytest.mark.parametrize(
    ("bracket", "closes_us"),
    [
        (Bracket(_row(1, "join"), AMONG, TracePoint(1, 100), TracePoint(9, 900)), 901),
        (Bracket(_row(1, "join"), AMONG, TracePoint(1, 100)), 100 + WAIT_US_MAX + 1),
        (Bracket(_row(9, "join", late=True), AMONG, end=TracePoint(9, 900)), 901),
        (Bracket(_row(5, "leave", reason="closed_by_broker"), AMONG, TracePoint(5, 500)), 500 + SKEW + 1),
    ],
    ids=["both sides", "start only", "end only", "closed by the broker"],
)
def test_a_bracket_waits_for_what_may_still_come(bracket: Bracket, closes_us: int) -> None:
    assert not bracket.closed(closes_us - 1)
    assert bracket.closed(closes_us)
