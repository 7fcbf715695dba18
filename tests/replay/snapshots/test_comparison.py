"""Snapshots against the replay, on small logs: what agrees before, after, or at no moment of their bracket.

Consumer 1 owns everything at first, 2 takes the lower half.
"""

import pytest
from local_replay import HIGH, LOW, Disagreement, Log, Replay, replayed, reported

ALL = [[0, 65_536]]
LOWER, UPPER = [[0, 32_768]], [[32_769, 65_536]]
LOW_HASH = 21_772


def _drains(entries: int) -> list[dict[str, int]]:
    return [{"hash": LOW_HASH, "unacked_messages": entries}]


def _settled(log: Log) -> None:
    """The log goes on after every bracket."""
    log.now_us += 1_000_000
    log.write("stats")


def _agreement(log: Log, what: str, version: str = "4.0.8") -> tuple[int, int]:
    """How often the broker agreed, of how many times."""
    return replayed(log.rows, version=version).agreement[what]


# Unacknowledged messages.


def _sent(messages: int = 1) -> Log:
    log = Log()
    log.join(1)
    log.publish(0, LOW, batch_size=messages)
    log.dispatch(1, 0, LOW, batch_size=messages)
    return log


@pytest.mark.parametrize(("count", "agreed"), [(2, 0), (3, 1), (4, 0)])
def test_unacknowledged_messages_are_those_of_the_entries_held(count: int, agreed: int) -> None:
    log = _sent(messages=3)
    seq = len(log.rows)
    log.snapshot(reported(1, unacked_messages=count), seq_begin=seq, seq_end=seq)
    _settled(log)
    assert _agreement(log, "unacked_messages") == (agreed, 1)
    (excess,) = replayed(log.rows).excesses
    assert (excess.consumer, excess.messages, excess.seq_begin) == (1, count - 3, seq)


@pytest.mark.parametrize(("count", "agreed"), [(-1, 0), (0, 1), (1, 1), (2, 0)])
def test_while_an_entry_is_acknowledged_both_may_be(count: int, agreed: int) -> None:
    log = _sent()
    begins = log.ack(1, 0)
    log.snapshot(reported(1, unacked_messages=count), seq_begin=begins - 1, seq_end=begins)
    _settled(log)
    replay = replayed(log.rows)
    assert replay.agreement["unacked_messages"] == (agreed, 1)
    # Not exact, so nothing is said of an excess.
    assert replay.excesses == []


@pytest.mark.parametrize(("count", "agreed"), [(0, 0), (1, 1), (2, 0)])
def test_a_snapshot_knows_nothing_of_what_lies_behind_its_bracket(count: int, agreed: int) -> None:
    log = _sent()
    seq = len(log.rows)
    log.ack(1, 0)
    # Taken before the acknowledgement, written after it.
    log.snapshot(reported(1, unacked_messages=count), seq_begin=seq, seq_end=seq)
    _settled(log)
    assert _agreement(log, "unacked_messages") == (agreed, 1)


def test_a_dispatch_on_its_way_may_count_or_not() -> None:
    agreed = []
    for count in (0, 1, 2):
        log = Log()
        log.join(1)
        log.publish(0, LOW)
        start = log.dispatch(1, 0, LOW, phases="start")
        log.snapshot(reported(1, unacked_messages=count), seq_begin=start, seq_end=start)
        log.dispatch(1, 0, LOW, phases="end")
        _settled(log)
        agreed.append(_agreement(log, "unacked_messages")[0])
    assert agreed == [1, 1, 0]


def test_an_entry_that_nobody_was_sent_counts_for_nobody_while_it_is_acknowledged() -> None:
    log = Log()
    log.join(1)
    begins = log.ack(1, 5)
    log.snapshot(reported(1, unacked_messages=0), seq_begin=begins, seq_end=begins)
    _settled(log)
    assert _agreement(log, "unacked_messages") == (1, 1)


def test_what_the_broker_did_not_say_is_not_compared() -> None:
    log = _sent()
    log.snapshot(reported(1))
    log.snapshot(reported(99, unacked_messages=5, key_hash_ranges=ALL, draining_hashes=[]))
    _settled(log)
    assert replayed(log.rows).agreement == {}


# Ranges.


def _joined() -> tuple[Log, int]:
    """Consumer 2 joins; and the seq of the row that records the begin of it."""
    log = Log()
    log.join(1)
    _settled(log)
    return log, log.join(2)


@pytest.mark.parametrize(
    ("ranges", "begin", "end", "agreed"),
    [
        (ALL, -1, 2, 1),
        (UPPER, -1, 2, 1),
        (LOWER, -1, 2, 0),
        (ALL, 2, 2, 0),
        (UPPER, 2, 2, 1),
        (UPPER, -1, -1, 0),
        (ALL, -1, -1, 1),
    ],
)
def test_ranges_agree_with_either_side_of_the_bracket(
    ranges: list[list[int]], begin: int, end: int, agreed: int
) -> None:
    log, joins = _joined()
    log.write("stats")
    log.snapshot(reported(1, key_hash_ranges=ranges), seq_begin=joins + begin, seq_end=joins + end)
    _settled(log)
    assert _agreement(log, "assignment_mismatch") == (agreed, 1)


def test_a_mismatch_of_ranges_says_which() -> None:
    log, _ = _joined()
    seq = log.snapshot(reported(1, key_hash_ranges=LOWER))
    _settled(log)
    expected = Disagreement("assignment_mismatch", seq, 1, ("[0, 32768]",), ("[32769, 65536]",))
    assert replayed(log.rows).disagreements == [expected]


def test_absent_ranges_are_those_of_the_snapshot_before() -> None:
    log = Log()
    log.join(1)
    log.snapshot(reported(1))
    log.snapshot(reported(1, key_hash_ranges=ALL))
    log.snapshot(reported(1))
    _settled(log)
    log.join(2)
    _settled(log)
    # The broker is taken to say that nothing has changed.
    changed = log.snapshot(reported(1))
    _settled(log)
    replay = replayed(log.rows)
    assert replay.agreement["assignment_mismatch"] == (2, 3)
    assert [found.seq for found in replay.disagreements] == [changed]


# Draining hashes.


def _moved(*, back: bool = False) -> Log:
    """Consumer 1 holds two entries of LOW, which moves to consumer 2, and back if asked for."""
    log = Log()
    log.join(1)
    for entry in (0, 1):
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW)
    _settled(log)
    log.join(2)
    if back:
        log.leave(2)
    _settled(log)
    return log


@pytest.mark.parametrize(("entries", "agreed"), [(1, 0), (2, 1), (3, 0)])
def test_what_drains_is_what_the_holder_has(entries: int, agreed: int) -> None:
    log = _moved()
    log.snapshot(reported(1, draining_hashes=_drains(entries)), reported(2, draining_hashes=[]))
    _settled(log)
    assert _agreement(log, "draining_mismatch") == (1 + agreed, 2)


@pytest.mark.parametrize(
    ("unacked", "entries", "version", "agreed"),
    [
        (2, 2, "5.0.0-M1", 1),  # the cursor has deleted neither yet
        (1, 1, "5.0.0-M1", 1),
        (1, 2, "5.0.0-M1", 0),  # counts one less than it lists
        (0, 1, "5.0.0-M1", 0),
        (2, 2, "4.2.4", 0),  # forgets an entry before the cursor deletes it
        (0, 0, "4.2.4", 1),
    ],
)
def test_what_the_cursor_has_not_deleted_yet_drains_on_some_brokers(
    unacked: int, entries: int, version: str, agreed: int
) -> None:
    log = _moved()
    log.ack(1, 0, 1)
    draining = _drains(entries) if entries else []
    log.snapshot(reported(1, unacked_messages=unacked, draining_hashes=draining))
    _settled(log)
    assert _agreement(log, "draining_mismatch", version) == (agreed, 1)


def _told(replay: Replay) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    return [(found.consumer, found.missing, found.surplus) for found in replay.disagreements]


def test_a_hash_that_the_broker_has_and_the_trace_does_not_is_missing() -> None:
    log = _moved()
    log.snapshot(reported(1, draining_hashes=[*_drains(2), {"hash": 77, "unacked_messages": 1}]))
    _settled(log)
    assert _told(replayed(log.rows)) == [(1, ("77 (1 entry, expected 0)",), ())]


def test_a_hash_that_the_trace_has_and_the_broker_does_not_is_surplus() -> None:
    log = _moved()
    log.snapshot(reported(1, draining_hashes=[]))
    _settled(log)
    assert _told(replayed(log.rows)) == [(1, (), (f"{LOW_HASH} (0 entries, expected 2)",))]


@pytest.mark.parametrize("never", ["dispatch", "ack", "flow"])
def test_rows_of_a_kind_that_a_recorder_never_writes_prove_nothing_about_what_drains(never: str) -> None:
    log = _moved()
    log.flow(2, 10)
    log.publish(2, HIGH)
    log.dispatch(2, 2, HIGH)
    log.ack(2, 2)
    log.snapshot(reported(1, draining_hashes=[*_drains(1), {"hash": 77, "unacked_messages": 1}]))
    _settled(log)
    rows = [row for row in log.rows if row["event"] != never]
    # A short trace may have no acknowledgement because there was none.
    expected = "not_provable" if never == "dispatch" else "violation"
    weighed = replayed(rows).weighed
    assert [severity for rule, severity in weighed if rule == "draining_mismatch"] == [expected]


@pytest.mark.parametrize(
    ("version", "entries", "agreed"),
    [("4.0.3", 2, 1), ("4.0.3", 0, 1), ("4.0.8", 2, 0), ("4.0.8", 0, 1), ("4.2.4", 2, 0), ("4.2.4", 0, 1)],
)
def test_a_hash_that_came_back_stays_listed_until_it_is_tried_on_older_brokers(
    version: str, entries: int, agreed: int
) -> None:
    log = _moved(back=True)
    log.snapshot(reported(1, draining_hashes=_drains(entries) if entries else []))
    _settled(log)
    # 4.0.3 forgets it at the next attempt only, and no row shows one (3.4); from 4.0.7 on it is forgotten at once.
    assert _agreement(log, "draining_mismatch", version) == (agreed, 1)


@pytest.mark.parametrize(("entries", "agreed"), [(0, 0), (1, 1), (2, 1), (3, 0)])
def test_while_one_of_two_is_acknowledged_either_may_be_counted(entries: int, agreed: int) -> None:
    log = _moved()
    begins = log.ack(1, 1)
    drains = _drains(entries) if entries else []
    log.snapshot(reported(1, draining_hashes=drains), seq_begin=begins - 1, seq_end=begins)
    _settled(log)
    assert _agreement(log, "draining_mismatch") == (agreed, 1)


@pytest.mark.parametrize(("entries", "agreed"), [(0, 0), (1, 1), (2, 1), (3, 0)])
def test_what_drained_at_the_begin_of_the_bracket_may_be_counted_as_well(entries: int, agreed: int) -> None:
    log = _moved()
    begins = len(log.rows)
    log.ack(1, 0)
    ends = len(log.rows)
    log.snapshot(reported(1, draining_hashes=_drains(entries)), seq_begin=begins, seq_end=ends)
    _settled(log)
    assert _agreement(log, "draining_mismatch") == (agreed, 1)


@pytest.mark.parametrize(("entries", "agreed"), [(0, 1), (1, 1), (2, 0)])
def test_the_last_acknowledgement_of_a_draining_hash_may_be_on_its_way(entries: int, agreed: int) -> None:
    log = _moved()
    log.ack(1, 0)
    begins = log.ack(1, 1)
    log.snapshot(reported(1, draining_hashes=_drains(entries) if entries else []), seq_begin=begins, seq_end=begins)
    _settled(log)
    assert _agreement(log, "draining_mismatch") == (agreed, 1)


def test_where_nothing_drains_the_lists_are_not_compared() -> None:
    log = _moved()
    log.snapshot(reported(1, draining_hashes=_drains(5)))
    _settled(log)
    assert "draining_mismatch" not in replayed(log.rows, version="3.0.7").agreement


# Entries in replay.


@pytest.mark.parametrize(("count", "agreed"), [(1, 0), (2, 1), (3, 0)])
def test_what_waits_below_the_read_position_is_in_replay(count: int, agreed: int) -> None:
    log = Log()
    log.join(1)
    for entry in range(4):
        log.publish(entry, HIGH)
    log.snapshot(msg_in_replay=count, read_position="1:2")
    _settled(log)
    assert _agreement(log, "msg_in_replay") == (agreed, 1)


def test_what_is_delayed_is_not_in_replay_before_it_was_sent() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH, deliver_at_ms=1)
    log.publish(1, HIGH, deliver_at_ms=1)
    log.dispatch(1, 1, HIGH)
    log.redeliver(1, 1)
    log.snapshot(msg_in_replay=1, read_position="1:2")
    _settled(log)
    assert _agreement(log, "msg_in_replay") == (1, 1)


def test_a_snapshot_that_knows_a_consumer_before_its_join_is_recorded_is_read_alike_however_the_rows_are_cut() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.now_us += 5_000
    log.snapshot(reported(2, unacked_messages=0, key_hash_ranges=LOWER))
    # Within the skew of the recorder: it may have been there.
    log.now_us += 10_001
    log.join(2)
    log.publish(0, LOW)
    whole = replayed(log.rows)
    assert whole.agreement["unacked_messages"] == (1, 1)
    assert replayed(log.rows, rows_per_batch=1).bytes == whole.bytes


@pytest.mark.parametrize(("waits", "agrees"), [(True, True), (False, False)])
def test_what_a_read_in_flight_sends_behind_a_clear_is_pending_below_mark_delete(waits: bool, agrees: bool) -> None:
    """An entry of LOW is in replay when a clear passes it, and is sent; or it was sent before, and is dropped (E6)."""
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.publish(1, HIGH)
    log.dispatch(1, 1, HIGH)
    if not waits:
        log.dispatch(1, 0, LOW)
    log.reset("clear")
    if waits:
        log.dispatch(1, 0, LOW)
    log.now_us += 200_000
    log.snapshot(mark_delete_position="1:1")
    log.now_us += 200_000
    log.join(2)
    log.now_us += 200_000
    seq = len(log.rows)
    log.snapshot(
        reported(1, draining_hashes_count=1, draining_hashes=_drains(1)),
        seq_begin=seq,
        seq_end=seq,
        mark_delete_position="1:1",
    )
    _settled(log)
    assert _agreement(log, "draining_mismatch") == (agrees, 1)


@pytest.mark.parametrize(
    ("version", "read", "undecided"), [("4.0.8", False, True), ("4.0.8", True, False), ("4.2.4", False, False)]
)
def test_what_a_skip_passed_may_drain_until_the_next_read(version: str, read: bool, undecided: bool) -> None:
    """Only 4.0.x releases it at a read, which a skip does not begin (contract 5.9); a dispatch shows that one was."""
    log = _moved()
    log.reset("skip")
    log.stats(mark_delete_position="1:1")
    _settled(log)
    if read:
        log.publish(2, HIGH)
        log.dispatch(1, 2, HIGH)
        _settled(log)
    seq = log.snapshot(reported(1, draining_hashes=_drains(2)))
    _settled(log)
    missing = (f"{LOW_HASH} (2 entries, expected 0)",)
    expected = Disagreement("draining_mismatch", seq, 1, missing, (), undecided)
    assert replayed(log.rows, version=version).disagreements == [expected]


@pytest.mark.parametrize(
    ("version", "drains", "agrees"),
    [("4.0.8", False, True), ("4.0.8", True, True), ("4.2.4", False, False), ("4.2.4", True, True)],
)
def test_what_was_sent_again_behind_its_acknowledgement_may_drain_on_4_0(
    version: str, drains: bool, agrees: bool
) -> None:
    """A read in flight sends an entry that mark-delete has passed; the next read of 4.0.x releases it (4.2)."""
    log = _sent()
    log.ack(1, 0)
    log.dispatch(1, 0, LOW)
    log.now_us += 200_000
    log.join(2)
    log.now_us += 200_000
    seq = len(log.rows)
    draining = {"draining_hashes_count": 1, "draining_hashes": _drains(1)} if drains else {"draining_hashes": []}
    log.snapshot(reported(1, unacked_messages=1, **draining), seq_begin=seq, seq_end=seq)
    _settled(log)
    agreement = replayed(log.rows, version=version).agreement
    assert agreement["draining_mismatch"] == (agrees, 1)
    assert agreement["unacked_messages"] == (1, 1)
