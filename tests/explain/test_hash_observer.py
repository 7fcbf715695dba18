"""Looking at a hash between the rows of a replay: what is seen, and that it changes nothing."""

from dataclasses import replace

from found import config_of, found_in, recorded_config
from local_replay import HIGH, LOW, Log, Tables, recorded_logs
from recorded import of_each

from dispatch_audit.pipeline.explain.hash_observer import HashObserver, SeenHash
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.replay.config import ReplayConfig

HASH_OF_LOW = 21772


def seen_in(log: Log, *places: int) -> list[SeenHash]:
    found = found_in(log.rows, config_of())
    observer = HashObserver(HASH_OF_LOW, places)
    replayed_rows(found.events.packed, found.events.group, found.events.config, observer)
    return [observer.seen[place] for place in places]


def test_a_hash_waits_is_pending_drains_and_is_free() -> None:
    log = Log()
    log.join(1)
    published = log.publish(0, LOW)
    sent = log.dispatch(1, 0, LOW)
    joined = log.join(2) + 1
    later = log.publish(1, LOW)
    acked = log.ack(1, 0) + 1
    states = seen_in(log, published, sent, joined, later, acked)
    assert states == [
        SeenHash(1, "", {}, None, None, 1, 0),
        SeenHash(1, "", {1: 1}, None, None, 0, 0),
        SeenHash(2, "", {1: 1}, 1, 2, 0, 0),
        SeenHash(2, "", {1: 1}, 1, 2, 1, 0),
        SeenHash(2, "", {}, None, None, 1, 0),
    ]


def test_entries_of_other_hashes_do_not_count() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    (state,) = seen_in(log, log.publish(1, HIGH))
    assert state == SeenHash(1, "", {}, None, None, 0, 0)


def test_an_owner_that_the_trace_leaves_open_is_undecided() -> None:
    log = Log()
    log.join(1)
    log.join(2, phases="start")
    log.join(3, phases="start")
    log.join(2, phases="end")
    log.join(3, phases="end")
    (state,) = seen_in(log, log.publish(0, LOW))
    assert state.owner in (2, 3)
    assert "join c2" in state.undecided


def test_after_the_last_row_the_hash_is_seen_before_what_is_open_is_closed() -> None:
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    last = log.dispatch(1, 0, LOW) + 1
    (state,) = seen_in(log, last)
    assert state.held == {1: 1}


def tables_with_and_without(name: str, config: ReplayConfig) -> tuple[Tables, Tables]:
    """The tables of a recording whose replay is looked at after every tenth row, and those of a plain replay."""
    found = found_in([row for log in recorded_logs(name) for row in log], config)
    group, config = found.events.group, found.events.config
    every_tenth = found.rows.column("seq").to_pylist()[::10]
    observer = HashObserver(HASH_OF_LOW, every_tenth)
    looked_at = replayed_rows(found.events.packed, group, config, observer)
    assert observer.seen.keys() == set(every_tenth)
    return looked_at, replayed_rows(packed_rows(found.rows.to_batches(), config, [group]), group, config)


@of_each(["heavy-churn-1-4.0.8"])
def test_looking_at_a_hash_changes_no_row_of_any_table(name: str) -> None:
    looked_at, plain = tables_with_and_without(name, recorded_config(name))
    assert looked_at == plain


@of_each(["steady-4.0.8"])
def test_a_claimed_limit_is_contradicted_whoever_looks(name: str) -> None:
    config = recorded_config(name)
    claimed = replace(config, broker={**config.broker, "maxUnackedMessagesPerConsumer": 3})
    looked_at, plain = tables_with_and_without(name, claimed)
    assert looked_at == plain
    assert {row["severity"] for row in plain["violations"] if row["rule"] == "unacked_limit"} == {"not_provable"}
