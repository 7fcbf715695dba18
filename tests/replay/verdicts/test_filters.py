"""What an entry filter may explain (E4) although no row names one: it rejects an entry, or puts it off."""

from collections import Counter

from local_replay import LOW, NO_RATES, Log, say, tables_of


def _found(log: Log) -> Counter[tuple[str, str]]:
    tables = tables_of(log.rows)
    return Counter((row["rule"], row["severity"]) for row in tables["violations"] if row["severity"] != "info")


def _put_off(count: int) -> Log:
    """Entry 1:0 is passed by 1:1 and comes two seconds later, with a redelivery count."""
    log = Log()
    say(log, **NO_RATES)
    log.join(1)
    log.flow(1, 1_000)
    log.publish(0, LOW)
    log.publish(1, LOW)
    log.dispatch(1, 1, LOW, count=0)
    log.ack(1, 1)
    log.now_us += 2_000_000
    log.dispatch(1, 0, LOW, count=count)
    log.ack(1, 0)
    return log


def test_a_higher_count_shows_that_a_filter_may_have_put_an_entry_off() -> None:
    assert {severity for _, severity in _found(_put_off(1))} == {"not_provable"}
    assert ("stalled", "not_provable") in _found(_put_off(1))


def test_without_it_nothing_explains_why_an_entry_was_passed() -> None:
    assert ("replay_overtaken", "violation") in _found(_put_off(0))
    assert ("stalled", "violation") in _found(_put_off(0))


def test_an_entry_that_is_never_sent_may_have_been_rejected() -> None:
    log = _put_off(0)
    log.publish(2, LOW)
    for entry in (3, 4):
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW, count=0)
        log.ack(1, entry)
    log.now_us += 5_000_000
    log.publish(5, LOW)

    found = _found(log)
    assert found["replay_overtaken", "not_provable"] == 2
    assert found["replay_overtaken", "violation"] == 1


def _passed(mark_delete: str) -> Counter[tuple[str, str]]:
    """Entry 1:1 is never sent, later ones of its key are, and a snapshot three seconds later shows mark-delete."""
    log = Log()
    say(log, **NO_RATES)
    log.join(1)
    log.flow(1, 1_000)
    for entry in range(5):
        log.publish(entry, LOW)
        if entry != 1:
            log.dispatch(1, entry, LOW, count=0)
            log.ack(1, entry)
    log.now_us += 3_000_000
    log.stats(mark_delete)
    return _found(log)


def test_mark_delete_that_stays_in_front_of_an_entry_shows_that_no_filter_rejected_it() -> None:
    assert _passed("1:0")["replay_overtaken", "violation"] == 3
    assert _passed("1:4")["replay_overtaken", "violation"] == 0
