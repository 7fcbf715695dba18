"""A consumer that came and went around a snapshot which does not list it: on which side of the snapshot is open.

Consumer 1 is there, and 2 joins and leaves. Its rows allow both changes before the snapshot and both after it.
"""

import pytest
from local_replay import HIGH, LOW, LOWEST, Log, replayed, reported

KEYS = [LOWEST, LOW, HIGH]
NOBODYS, ALL = [[0, 65_535]], [[0, 65_536]]


def _around_snapshot(listed: list[list[int]], sent: bool = False) -> Log:
    """The log; `listed` are the ranges of consumer 1 in the snapshot between the sides of both changes."""
    log = Log()
    log.join(1)
    for entry in range(6):
        log.publish(entry, KEYS[entry % 3])
    log.now_us += 1_000_000
    log.join(2, phases="start")
    log.leave(2, phases="start")
    if sent:
        log.dispatch(1, 0, LOWEST)
        log.ack(1, 0)
    now = len(log.rows) + 1
    log.snapshot(reported(1, key_hash_ranges=listed), seq_begin=now, seq_end=now)
    log.join(2, phases="end")
    log.leave(2, phases="end")
    log.now_us += 200_000
    log.snapshot(reported(1, key_hash_ranges=ALL))
    return log


@pytest.mark.parametrize("sent", [False, True])
def test_it_is_taken_neither_for_there_nor_for_gone(sent: bool) -> None:
    found = replayed(_around_snapshot(ALL, sent).rows)
    assert [name for name, _ in found.changes] == ["join c1", "join c2", "leave c2"]
    assert found.agreement["assignment_mismatch"][1] == 2
    assert {severity for _, severity in found.weighed} <= {"not_provable"}


def test_ranges_that_nobody_can_have_at_that_moment_are_found() -> None:
    # Consumer 2 would have the lower half, so consumer 1 has the last hash whether 2 is there or not.
    found = replayed(_around_snapshot(NOBODYS).rows)
    # No row shows permits, so that nothing was sent for two seconds proves nothing.
    # All hashes at one consumer are the ranges of another selector too.
    assert dict(found.weighed) == {("assignment_mismatch", "not_provable"): 1, ("stalled", "not_provable"): 1}
