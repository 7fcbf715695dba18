"""Membership changes become epochs."""

from known_changes import join, leave, reset

from dispatch_audit.pipeline.assignment import NOBODY, AssignmentLog


def test_a_story_of_five_epochs() -> None:
    log = AssignmentLog("auto_split")
    assert log.current is None
    assert log.routing.owners_of([1, 40_000]).tolist() == [NOBODY, NOBODY]

    join(log, 7, "c0", 10)
    assert log.take_closed() == []
    join(log, 8, "c1", 20)
    assert log.routing.owners_of([1, 40_000]).tolist() == [8, 7]
    assert leave(log, 7, 30)
    assert reset(log, 40)
    join(log, 9, "c0", 50)

    closed = log.take_closed()
    assert log.take_closed() == []
    assert [(epoch.number, epoch.from_seq, epoch.change) for epoch in closed] == [
        (0, 10, "join c0"),
        (1, 20, "join c1"),
        (2, 30, "leave c0"),
        (3, 40, "reset"),
    ]
    assert [epoch.hashes_moved for epoch in closed] == [65_536, 32_769, 32_767, 65_536]
    assert closed[1].owned.rows == ((0, 32_768, 8), (32_769, 65_536, 7))
    assert closed[1].names == {7: "c0", 8: "c1"}
    assert closed[3].owned.rows == ()
    assert log.current is not None
    assert (log.current.number, log.current.from_seq) == (4, 50)
    assert log.current.owned.rows == ((0, 65_536, 9),)


def test_a_refused_join_is_no_epoch() -> None:
    log = AssignmentLog("exclusive")
    join(log, 1, "c1", 1, [(0, 9)])
    epoch, routing = log.current, log.routing
    assert not join(log, 2, "c2", 2, [(5, 12)])
    assert log.current is epoch
    assert log.routing is routing
    join(log, 2, "c2", 3, [(10, 12)])
    assert log.current is not None
    assert log.current.number == 1


def test_leave_of_a_stranger_and_reset_of_nobody_are_no_epochs() -> None:
    log = AssignmentLog("consistent_hashing")
    assert not reset(log, 1)
    assert not leave(log, 5, 2)
    assert log.current is None
    join(log, 1, "c1", 3)
    assert not leave(log, 5, 4)
    assert leave(log, 1, 5)
    assert not leave(log, 1, 6)
    assert not reset(log, 7)
    assert log.current is not None
    assert log.current.number == 1


def test_a_reset_forgets_the_name_indexes() -> None:
    log = AssignmentLog("consistent_hashing")
    join(log, 1, "same", 1)
    alone = log.routing
    join(log, 2, "same", 2)
    reset(log, 3)
    # With index 1 remembered as taken by the one that is gone, or index 0, this would be another ring.
    join(log, 3, "same", 4)
    assert log.routing.uppers.tolist() == alone.uppers.tolist()


def test_a_namesake_gets_the_lowest_free_index() -> None:
    log = AssignmentLog("consistent_hashing")
    for consumer, seq in ((1, 1), (2, 2), (3, 3)):
        join(log, consumer, "same", seq)
    before = log.routing
    leave(log, 2, 4)
    join(log, 4, "same", 5)
    assert log.routing.uppers.tolist() == before.uppers.tolist()
    assert [4 if owner == 2 else owner for owner in before.owners.tolist()] == log.routing.owners.tolist()
