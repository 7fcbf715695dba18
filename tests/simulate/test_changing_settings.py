"""Settings that change while the simulated broker runs, and the rows that say so."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from simulated import MS, S, client, joins, rows_of, workload_of
from test_flaws import AUTO_SPLIT, FOREVER, HIGH, LOW, setup

from dispatch_audit.pipeline.simulate.output.settings_rows import RecordedSettings
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.state.broker_settings import RATES
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload

CONSUMER = "maxUnackedMessagesPerConsumer"
SUBSCRIPTION = "maxUnackedMessagesPerSubscription"
PER_TOPIC = "dispatchThrottlingRatePerTopicInMsg"
LOOK_AHEAD = "keySharedLookAheadMsgInReplayThresholdPerSubscription"


def held(limits: Sequence[tuple[int, dict[str, int | None]]], forever: bool = True) -> PartitionWorkload:
    """A consumer that keeps what it is sent, while limits change."""
    published = [(10 * MS + at * 5 * MS, HIGH) for at in range(400)]
    changes = [Action(at_ms * MS, "settings", settings=values) for at_ms, values in limits]
    service_us = FOREVER if forever else 20 * MS
    return workload_of(published, [client("a", service_us=service_us)], [*joins(1), *changes], 4 * S)


def under(broker: dict[str, object], recorded: RecordedSettings = "not", settings_us: int = 0) -> Setup:
    found = setup("4.2.4", broker={**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 5, **broker})
    return replace(found, recorded_settings=recorded, settings_us=settings_us)


def held_at(workload: PartitionWorkload, setup: Setup, *at_ms: int) -> list[int]:
    rows = rows_of(workload, setup)
    sent = [row["ts_us"] for row in rows if row["event"] == "dispatch" and row["phase"] == "start"]
    acked = [row["ts_us"] for row in rows if row["event"] == "ack" and row["phase"] == "end"]
    return [sum(ts <= at * MS for ts in sent) - sum(ts <= at * MS for ts in acked) for at in at_ms]


def test_the_limit_of_a_consumer_is_what_it_is_now() -> None:
    workload = held([(500, {CONSUMER: 30}), (1000, {CONSUMER: None})])

    # Raised and lowered while it is at the limit; nothing is taken back.
    assert held_at(workload, under({CONSUMER: 10}), 490, 990, 1500) == [10, 10, 10]


def test_a_limit_that_is_raised_before_it_is_reached_holds() -> None:
    assert held_at(held([(30, {CONSUMER: 60})]), under({CONSUMER: 20}), 3000) == [60]


def test_a_consumer_is_unblocked_when_its_limit_is_gone_and_something_is_settled() -> None:
    workload = held([(500, {CONSUMER: 0})], forever=False)
    alone = PartitionSimulation(workload, under({CONSUMER: 5}))
    alone.run()

    assert alone.cursor.mark_delete == 399


def test_the_limit_of_the_subscription_is_what_it_is_now() -> None:
    found = held_at(held([(20, {SUBSCRIPTION: 50})]), under({SUBSCRIPTION: 20}), 3000)

    # A read may have begun below it.
    assert 50 <= found[0] < 55


def test_a_look_ahead_limit_is_what_it_is_now() -> None:
    published = [(10 * MS + at * MS, LOW) for at in range(300)]
    stuck = [client("a"), client("b", queue=1, service_us=FOREVER)]
    peaks = []
    for changes in ([], [Action(5 * MS, "settings", settings={LOOK_AHEAD: 50})]):
        workload = workload_of(published, stuck, [*joins(2), Action(9 * MS, "hang", 1), *changes], 2 * S)
        simulation = PartitionSimulation(workload, under({LOOK_AHEAD: 20}))
        simulation.run()
        peaks.append(simulation.progress.measures.replay_peak)

    assert peaks == [20, 50]


def test_without_a_look_ahead_limit_policies_for_unacknowledged_messages_do_not_count() -> None:
    """The limit falls back to broker.conf (contract 4.7)."""
    off: dict[str, object] = {LOOK_AHEAD: 0, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 0, SUBSCRIPTION: 30}
    simulation = PartitionSimulation(held([(5, {SUBSCRIPTION: 1000})]), under(off))
    simulation.run(500)

    assert simulation.state.settings.unacked_per_subscription == 1000
    assert simulation.state.settings.look_ahead_limit(1) == 30


def settings_rows(workload: PartitionWorkload, setup: Setup) -> list[dict[str, Any]]:
    return [row for row in rows_of(workload, setup) if row["event"] == "settings"]


def values(row: dict[str, Any], name: str) -> str | None:
    return dict(row["settings"]).get(name)


def test_nobody_records_settings_unless_asked() -> None:
    assert settings_rows(held([(500, {CONSUMER: 30})]), under({CONSUMER: 10})) == []


def test_exact_rows_are_at_the_change() -> None:
    rows = settings_rows(held([(500, {CONSUMER: 30}), (900, {CONSUMER: None})]), under({CONSUMER: 10}, "exactly"))

    assert [(row["ts_us"] // MS, values(row, CONSUMER)) for row in rows] == [(0, "10"), (500, "30"), (900, "10")]
    assert [row["seq_begin"] for row in rows] == [None] * 3


@pytest.mark.parametrize("recorded", ["exactly", "late"])
def test_the_recorder_says_of_rates_that_nothing_limits_them(recorded: RecordedSettings) -> None:
    first, *_ = settings_rows(held([]), under({PER_TOPIC: 5}, recorded, 300 * MS))

    assert {name: values(first, name) for name in RATES} == {**dict.fromkeys(RATES, "0"), PER_TOPIC: "5"}


def test_late_rows_say_since_when_the_change_may_be() -> None:
    workload = held([(500, {CONSUMER: 30}), (900, {CONSUMER: None, SUBSCRIPTION: 7})])
    rows = rows_of(workload, under({CONSUMER: 10}, "late", 300 * MS))
    by_seq = {row["seq"]: row for row in rows}
    late = [row for row in rows if row["event"] == "settings"]

    assert [(row["ts_us"] // MS, values(row, CONSUMER)) for row in late] == [(0, "10"), (600, "30"), (900, "10")]
    assert late[0]["seq_begin"] is None
    for row, looked_ms in zip(late[1:], (300, 600), strict=True):
        assert by_seq[row["seq_begin"]]["ts_us"] <= looked_ms * MS <= by_seq[row["seq_begin"] + 1]["ts_us"]


def test_rows_are_numbered_on_across_batches() -> None:
    workload = held([(500, {CONSUMER: 30})])
    setup = under({CONSUMER: 10}, "late", 50 * MS)
    seqs = [row["seq"] for row in rows_of(workload, setup)]

    assert seqs == list(accumulate([1] * len(seqs)))


@pytest.mark.parametrize("recorded", ["not", "exactly", "late"])
def test_recording_settings_changes_nothing_else(recorded: RecordedSettings) -> None:
    workload = held([(500, {CONSUMER: 30})], forever=False)
    kept = [(row["event"], row["ts_us"], row["entry_id"]) for row in rows_of(workload, under({CONSUMER: 10}))]
    found = rows_of(workload, under({CONSUMER: 10}, recorded, 77 * MS))

    assert [(row["event"], row["ts_us"], row["entry_id"]) for row in found if row["event"] != "settings"] == kept
