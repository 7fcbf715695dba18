"""Membership changes become epochs."""

import pytest

from dispatch_audit.pipeline.assignment import NOBODY, AssignmentLog
from dispatch_audit.pipeline.errors import AssignmentError


def test_a_story_of_five_epochs() -> None:
    log = AssignmentLog("auto_split")
    assert log.current is None
    assert log.routing.owners_of([1, 40_000]).tolist() == [NOBODY, NOBODY]

    log.join(7, "c0", None, seq=10)
    assert log.take_closed() == []
    log.join(8, "c1", None, seq=20)
    assert log.routing.owners_of([1, 40_000]).tolist() == [8, 7]
    assert log.leave(7, seq=30)
    assert log.reset(seq=40)
    log.join(9, "c0", None, seq=50)

    closed = log.take_closed()
    assert log.take_closed() == []
    assert [(epoch.number, epoch.from_seq, epoch.change) for epoch in closed] == [
        (0, 10, "join c0"),
        (1, 20, "join c1"),
        (2, 30, "leave c0"),
        (3, 40, "reset"),
    ]
    assert [epoch.hashes_moved for epoch in closed] == [65_536, 32_769, 32_767, 65_536]
    assert closed[1].ranges == ((0, 32_768, 8), (32_769, 65_536, 7))
    assert closed[1].names == {7: "c0", 8: "c1"}
    assert closed[3].ranges == ()
    assert log.current is not None
    assert (log.current.number, log.current.from_seq) == (4, 50)
    assert log.current.ranges == ((0, 65_536, 9),)


def test_a_refused_join_is_no_epoch() -> None:
    log = AssignmentLog("exclusive")
    log.join(1, "c1", [(0, 9)], seq=1)
    epoch, routing = log.current, log.routing
    with pytest.raises(AssignmentError, match="held by consumer 1"):
        log.join(2, "c2", [(5, 12)], seq=2)
    assert log.current is epoch
    assert log.routing is routing
    log.join(2, "c2", [(10, 12)], seq=3)
    assert log.current is not None
    assert log.current.number == 1


def test_leave_of_a_stranger_and_reset_of_nobody_are_no_epochs() -> None:
    log = AssignmentLog("consistent_hashing")
    assert not log.reset(seq=1)
    assert not log.leave(5, seq=2)
    assert log.current is None
    log.join(1, "c1", None, seq=3)
    assert not log.leave(5, seq=4)
    assert log.leave(1, seq=5)
    assert not log.leave(1, seq=6)
    assert not log.reset(seq=7)
    assert log.current is not None
    assert log.current.number == 1


def test_a_reset_forgets_the_name_indexes() -> None:
    log = AssignmentLog("consistent_hashing")
    log.join(1, "same", None, seq=1)
    alone = log.routing
    log.join(2, "same", None, seq=2)
    log.reset(seq=3)
    # With index 1 remembered as taken by the one that is gone, or index 0, this would be another ring.
    log.join(3, "same", None, seq=4)
    assert log.routing.uppers.tolist() == alone.uppers.tolist()


def test_a_namesake_gets_the_lowest_free_index() -> None:
    log = AssignmentLog("consistent_hashing")
    for consumer, seq in ((1, 1), (2, 2), (3, 3)):
        log.join(consumer, "same", None, seq)
    before = log.routing
    log.leave(2, seq=4)
    log.join(4, "same", None, seq=5)
    assert log.routing.uppers.tolist() == before.uppers.tolist()
    assert [4 if owner == 2 else owner for owner in before.owners.tolist()] == log.routing.owners.tolist()
