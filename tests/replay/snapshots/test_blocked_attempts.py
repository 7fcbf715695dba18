"""How often a draining hash kept entries back, from snapshots to the rows of `draining`."""

from local_replay import HIGH, LOW, Log, replayed, reported

from dispatch_audit.pipeline.groups import blocking_rows

LOW_HASH = 21772


def listed(attempts: int) -> dict[str, object]:
    """Consumer 1 drains the hash of LOW, which was refused so often."""
    hashes = [{"hash": LOW_HASH, "unacked_messages": 1, "blocked_attempts": attempts}]
    return reported(1, draining_hashes=hashes)


def refused(log: Log) -> list[object]:
    """`blocked_attempts` of every row of `draining`."""
    return [row["blocked_attempts"] for row in blocking_rows.draining(replayed(log.rows).context)]


def draining(log: Log) -> None:
    """Consumer 1 holds an entry of LOW, which moves to consumer 2 with its join."""
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.join(2)


def test_the_last_count_of_the_episode_stands() -> None:
    log = Log()
    draining(log)
    for attempts in (1, 4, 4):
        log.snapshot(listed(attempts))
    log.ack(1, 0)
    assert refused(log) == [4]


def test_where_no_snapshot_tells_nothing_is_said() -> None:
    log = Log()
    draining(log)
    log.snapshot(reported(1, draining_hashes=[]))
    log.ack(1, 0)
    assert refused(log) == [None]


def test_a_hash_that_drains_once_more_is_counted_anew() -> None:
    log = Log()
    draining(log)
    log.snapshot(listed(3))
    log.ack(1, 0)
    log.snapshot(reported(1, draining_hashes=[]))
    log.leave(2)
    log.publish(1, LOW)
    log.dispatch(1, 1, LOW)
    log.join(3)
    log.snapshot(listed(7))
    log.publish(2, HIGH)
    assert refused(log) == [3, 7]
