"""Mark-delete as the acknowledgements and the snapshots show it, and what it releases.

Where it stands shows in what it does: it releases entries that batch-index acks have used up and that are still
pending (4.0.x), and an entry that it has passed is one that was acknowledged.
"""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Episode, Log, Replay, replayed

ANY = "4.0.8"
ADMINISTRATIVE = "4.2.4"


def _used_up(*, ledger: int = 1, entries: int = 3, used_up: int = 1) -> Log:
    """Consumer 1 holds entries that the cursor has not deleted, but for the one that its batch-index acks used up."""
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish((ledger, entry), LOW, batch_size=2)
        log.dispatch(1, (ledger, entry), LOW)
    log.ack(1, (ledger, used_up), ack_set=[-2])
    log.ack(1, (ledger, used_up), ack_set=[1])
    return log


def _held(log: Log, entry: int, version: str) -> bool:
    """Whether the entry is still pending at consumer 1 at the end of the log."""
    sent = log.dispatch(1, entry, LOW)
    (finding,) = [f for f in replayed(log.rows, version=version).findings if f.seq == sent]
    assert finding.rule == "early_duplicate"
    return not finding.acknowledged


@pytest.mark.parametrize("version", [ANY, ADMINISTRATIVE])
def test_an_entry_that_ack_sets_used_up_stays_pending(version: str) -> None:
    assert _held(_used_up(), 1, version)


@pytest.mark.parametrize(("version", "held"), [(ANY, False), (ADMINISTRATIVE, True)])
def test_mark_delete_passing_it_releases_it_on_some_versions(version: str, held: bool) -> None:
    log = _used_up()
    log.ack(1, 0)
    assert _held(log, 1, version) == held


def test_mark_delete_does_not_pass_what_is_not_acknowledged() -> None:
    log = _used_up(used_up=2)
    log.ack(1, 0)
    assert _held(log, 2, ANY)


def test_mark_delete_passes_everything_up_to_the_next_gap() -> None:
    log = _used_up(entries=5, used_up=3)
    log.ack(1, 2, 1)
    assert _held(log, 3, ANY)
    log.rows = log.rows[:-2]
    log.ack(1, 0)
    assert not _held(log, 3, ANY)


@pytest.mark.parametrize(("said", "found"), [(False, []), (True, [True]), (None, [True])])
def test_a_broker_whose_trace_says_so_ignores_ack_sets(said: bool | None, found: list[bool]) -> None:
    """It sends the batch again, as it must; a client sends ack sets because its broker counts them (contract 5.3)."""
    log = _used_up()
    log.ack(1, 0)
    log.leave(1)
    log.join(2)
    log.dispatch(2, 1, LOW)
    settings = {} if said is None else {"acknowledgmentAtBatchIndexLevelEnabled": said}
    assert _duplicates(replayed(log.rows, settings={**AUTO_SPLIT, **settings})) == found


@pytest.mark.parametrize("passed", [False, True], ids=["mark-delete before it", "mark-delete passes it"])
def test_two_consumers_use_up_one_batch_together(passed: bool) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    for entry in range(2):
        log.publish(entry, LOW, batch_size=2)
        log.dispatch(2, entry, LOW)
    log.ack(1, 1, ack_set=[0b10])
    log.ack(2, 1, ack_set=[0b01])
    if passed:
        log.ack(2, 0)
    sent = log.dispatch(2, 1, LOW)
    (finding,) = replayed(log.rows).findings
    assert (finding.seq, finding.acknowledged) == (sent, passed)


def test_an_ack_set_may_be_as_short_as_its_last_word() -> None:
    """Java writes the words of a bit set up to the last that is not zero, so the sets of one batch differ in length."""
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry, LOW, batch_size=100)
        log.dispatch(1, entry, LOW)
    log.ack(1, 1, ack_set=[-1])
    log.ack(1, 1, ack_set=[0, -1])
    log.ack(1, 0)
    sent = log.dispatch(1, 1, LOW)
    (finding,) = replayed(log.rows).findings
    assert (finding.seq, finding.acknowledged) == (sent, True)


def test_a_short_ack_set_after_a_long_one_leaves_its_own_words() -> None:
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry, LOW, batch_size=100)
        log.dispatch(1, entry, LOW)
    log.ack(1, 1, ack_set=[-1, -1])
    log.ack(1, 1, ack_set=[-2])
    log.ack(1, 0)
    assert _held(log, 1, ANY)


def test_the_words_of_several_batches_stay_apart() -> None:
    log = Log()
    log.join(1)
    for entry in range(200):
        log.publish(entry, LOW, batch_size=2)
        log.dispatch(1, entry, LOW)
    for ack_set in ([0b10], [0b01]):
        log.ack(1, *range(1, 200, 2), ack_set=ack_set)
    log.ack(1, *range(0, 200, 2))
    for entry in range(200):
        log.dispatch(1, entry, LOW)
    findings = replayed(log.rows).findings
    assert {finding.acknowledged for finding in findings} == {True}
    assert len(findings) == 200


def _ended(log: Log, version: str = ANY) -> list[Episode]:
    return replayed(log.rows, version=version).episodes


def test_a_release_by_mark_delete_ends_the_draining_of_the_hash() -> None:
    log = _used_up(entries=2)
    log.join(2)
    passed = log.ack(1, 0)
    (episode,) = _ended(log)
    assert (episode.to_seq, episode.ended_by) == (passed, "mark_delete")
    (episode,) = _ended(log, ADMINISTRATIVE)
    assert episode.ended_by == "open"


# Ledgers.


def test_mark_delete_goes_on_in_the_next_ledger() -> None:
    log = Log()
    log.join(1)
    for position in ((1, 0), (1, 1), (4, 0), (4, 1)):
        log.publish(position, LOW, batch_size=2)
        log.dispatch(1, position, LOW)
    log.ack(1, (4, 1), ack_set=[0, 0])
    log.ack(1, (1, 0), (1, 1))
    log.ack(1, (4, 0))
    sent = log.dispatch(1, (4, 1), LOW)
    (finding,) = replayed(log.rows).findings
    assert (finding.seq, finding.acknowledged) == (sent, True)


def test_mark_delete_waits_for_the_end_of_a_ledger() -> None:
    log = Log()
    log.join(1)
    for position in ((1, 0), (1, 1), (2, 0)):
        log.publish(position, LOW, batch_size=2)
        log.dispatch(1, position, LOW)
    log.ack(1, (2, 0), ack_set=[0, 0])
    log.ack(1, (1, 0))
    sent = log.dispatch(1, (2, 0), LOW)
    (finding,) = replayed(log.rows).findings
    assert (finding.seq, finding.acknowledged) == (sent, False)


# What is known of the time before.


def _duplicates(replay: Replay) -> list[bool]:
    return [finding.acknowledged for finding in replay.findings if finding.rule == "early_duplicate"]


def test_an_entry_below_mark_delete_was_acknowledged_even_if_it_is_forgotten() -> None:
    log = Log()
    log.join(1)
    log.publish(5)
    log.publish(6)
    log.dispatch(1, 5)
    log.ack(1, 5)
    log.dispatch(1, 5)
    assert _duplicates(replayed(log.rows)) == [True]


def test_of_what_is_older_than_the_trace_nothing_is_known() -> None:
    log = Log()
    log.join(1)
    log.publish(5)
    log.dispatch(1, 5)
    log.ack(1, 5)
    log.dispatch(1, 3)
    assert _duplicates(replayed(log.rows)) == []


def test_what_was_given_back_may_come_after_its_acknowledgement() -> None:
    """A replay read in flight sends it, legitimately, also when mark-delete has passed it."""
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.redeliver(1, 0)
    log.ack(1, 0)
    log.dispatch(1, 0)
    assert replayed(log.rows).findings == []


def test_what_was_given_back_may_come_after_its_last_ack_set() -> None:
    log = Log()
    log.join(1)
    log.publish(0, batch_size=2)
    log.dispatch(1, 0)
    log.redeliver(1, 0)
    log.ack(1, 0, ack_set=[0, 0])
    log.dispatch(1, 0)
    assert replayed(log.rows).findings == []


# Snapshots.


def test_a_snapshot_moves_mark_delete_past_what_the_trace_did_not_show() -> None:
    log = _used_up()
    log.ack(1, 2)
    log.stats("1:0")
    # 0 is held, for no acknowledgement of it was seen; what was used up after it is released.
    assert not _held(log, 1, ANY)


@pytest.mark.parametrize(("later_us", "acknowledged", "found"), [(0, False, 0), (1_100_000, False, 1), (0, True, 1)])
def test_a_read_in_flight_may_send_what_nobody_is_seen_to_have_acknowledged(
    later_us: int, acknowledged: bool, found: int
) -> None:
    log = Log()
    log.join(1)
    for entry in (0, 2):
        log.dispatch(1, entry, LOW)
    if acknowledged:
        log.ack(1, 2)
    log.stats("1:2")
    log.now_us += later_us
    sent = log.dispatch(1, 2 if acknowledged else 1, LOW)
    assert [f.seq for f in replayed(log.rows).findings if f.rule == "early_duplicate"] == [sent] * found


def test_an_older_snapshot_moves_nothing_back() -> None:
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry)
        log.dispatch(1, entry)
        log.ack(1, entry)
    log.stats("1:0")
    log.dispatch(1, 2)
    assert _duplicates(replayed(log.rows)) == [True]


def test_a_snapshot_before_any_entry_says_where_the_trace_begins() -> None:
    log = Log()
    log.join(1)
    log.stats("1:7")
    log.publish(8)
    log.publish(9)
    log.dispatch(1, 3)
    log.dispatch(1, 8)
    assert _duplicates(replayed(log.rows)) == []


@pytest.mark.parametrize(("acknowledged", "verdict"), [(False, "permitted"), (True, "violation")])
def test_what_nobody_acknowledged_may_be_dropped_once_a_snapshot_passed_it(acknowledged: bool, verdict: str) -> None:
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    if acknowledged:
        log.ack(1, 0)
        log.stats("1:0")
    else:
        log.stats("1:1")
    log.publish(2, HIGH)
    log.join(2)
    log.dispatch(2, 2, HIGH)
    assert {seen for rule, seen in replayed(log.rows).weighed if rule == "single_holder"} == {verdict}


def test_what_waits_below_a_snapshot_waits_no_longer() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1)
    log.publish(2)
    log.join(2)
    log.stats("1:1")
    log.now_us += 1_000_000
    log.ack(1, 0)
    (episode,) = replayed(log.rows).episodes
    # Entry 2 alone waits for that second.
    assert 1_000_000 <= episode.waited_us < 1_100_000


def _two_holders(log: Log) -> int:
    return sum(rule == "single_holder" for rule, _ in replayed(log.rows).violated)


def test_a_snapshot_that_passed_many_entries_withdraws_every_finding_about_them() -> None:
    entries = 1_200
    log = Log()
    log.join(1)
    for entry in range(2 * entries):
        log.publish(entry, b"key-%d" % (entry % entries))
    for entry in range(entries):
        log.dispatch(1, entry, b"key-%d" % entry)
    log.now_us += 200_000
    log.stats("1:-1")
    log.join(2)
    log.now_us += 200_000
    for entry in range(entries):
        log.dispatch(2, entries + entry, b"key-%d" % entry)
    assert _two_holders(log) == entries
    log.now_us += 200_000
    log.stats(f"1:{entries - 1}")
    assert _two_holders(log) == 0
