"""A snapshot that was taken after two joins which rows bound so narrowly that both took effect at the same row."""

from local_replay import SKEW_US, Log, replayed, reported


def test_a_snapshot_shows_each_of_two_joins_at_one_row() -> None:
    log = Log()
    log.join(1, phases="start")
    now = log.publish(0)
    log.now_us += 5 * SKEW_US
    both = reported(1, key_hash_ranges=[[32_769, 65_536]]), reported(2, key_hash_ranges=[[0, 32_768]])
    log.snapshot(*both, seq_begin=now, seq_end=now)
    log.join(2, phases="end")
    found = replayed(log.rows)
    assert [seq for _, seq in found.changes] == [now, now]
    assert found.agreement["assignment_mismatch"][1] == 2
    assert found.weighed == {}
