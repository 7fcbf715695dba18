"""Policies change while messages flow: the rows `settings` say what was in force, and the audit judges by it."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from churn import SUBSCRIPTION, TOPIC, client_of
from deltalake import DeltaTable
from holder import Holder
from recording_broker import RecordingBroker, complete_rows, recording_broker, rows_so_far, wait_for
from test_recorded_broker import audited

from dispatch_audit.pipeline.packing.snapshot import Snapshot, StatsRow, parsed_snapshot
from dispatch_audit.pipeline.replay.timeline.snapshot_views import FormerConsumers

pytestmark = pytest.mark.broker

NAMESPACE_PATH = "namespaces/public/default"
TOPIC_PATH = TOPIC.replace("://", "/")
PER_CONSUMER, PER_SUBSCRIPTION = "maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"
RATE_OF_TOPIC = "dispatchThrottlingRatePerTopicInMsg"
RATE_OF_SUBSCRIPTION = "dispatchThrottlingRatePerSubscriptionInMsg"
KEYS = 60


@dataclass(frozen=True)
class Change:
    """A setting that the test changed.

    Attributes:
        name: as in broker.conf.
        value: that it has from then on.
        source: that the row names.
        asked_us: when the test asked for it; the broker has the former value until then.
        seen_us: when the row of the new value was on disk.
    """

    name: str
    value: int
    source: str
    asked_us: int
    seen_us: int


def rate(messages: int) -> dict[str, object]:
    """A dispatch rate as the admin API takes it, in messages per second."""
    return {"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}


def in_force(rows: list[dict[str, Any]], name: str) -> tuple[object, str] | None:
    """The value that rows give to a setting in the end, and its source."""
    found = None
    for row in rows:
        if name in row["settings"]:
            found = row["settings"][name], row["sources"][name]
    return found


def snapshots(rows: Iterable[dict[str, Any]]) -> list[Snapshot]:
    """All snapshots of a subscription, with what each leaves out because it is as in the one before."""
    former = FormerConsumers()
    return [
        former.filled(parsed_snapshot(StatsRow(row["seq"], row["ts_us"], json.dumps(row["snapshot"])))) for row in rows
    ]


class Operator:
    """Changes settings of a running broker, and notes when."""

    def __init__(self, broker: RecordingBroker) -> None:
        self._broker = broker
        self.changes: list[Change] = []

    def change(self, name: str, value: int, source: str, method: str, path: str, body: object = None) -> None:
        """Asks for a change, and waits for its row."""
        asked = time.time_ns() // 1000
        self._broker.ask(method, path, body)
        wait_for(lambda: in_force(self.rows("settings"), name) == (value, source), f"{name} {value} of {source}")
        self.changes.append(Change(name, value, source, asked, time.time_ns() // 1000))

    def rows(self, event: str) -> list[dict[str, Any]]:
        """What is recorded so far of one event."""
        return rows_so_far(self._broker.trace, event)

    def held(self) -> list[int]:
        """What each consumer holds, in the last snapshot."""
        return [consumer.unacked or 0 for consumer in snapshots(self.rows("stats"))[-1].consumers]


@contextmanager
def traffic(broker: RecordingBroker) -> Iterator[list[Holder]]:
    """Two consumers, and a producer of 500 messages a second; all are connected until the broker stops."""
    client = client_of(broker.service_url)
    stop = threading.Event()
    holders = [Holder(client, TOPIC, SUBSCRIPTION, name) for name in ("a", "b")]
    producer = client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)

    def produce() -> None:
        sent = 0
        while not stop.is_set():
            producer.send_async(b"0" * 64, lambda *_: None, partition_key=f"key-{sent % KEYS}")
            sent += 1
            time.sleep(0.002)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield holders
    finally:
        stop.set()
        thread.join(30)
        for holder in holders:
            holder.stop()


def hold_until(holders: list[Holder], condition: Callable[[], bool], what: str) -> None:
    """Lets consumers hold what they get until something holds, for a second more, and lets them go."""
    for holder in holders:
        holder.hold()
    wait_for(condition, what)
    time.sleep(1)
    for holder in holders:
        holder.let_go()
    time.sleep(0.5)


def settings_change(broker: RecordingBroker, holders: list[Holder]) -> list[Change]:
    """Changes limits and rates at each level, and lets each of them hold the consumers up."""
    operator = Operator(broker)
    wait_for(lambda: in_force(operator.rows("settings"), PER_CONSUMER) == (40, "broker"), "the first row of settings")

    def limit_is_reached(limit: int) -> None:
        hold_until(holders, lambda: max(operator.held()) >= limit, f"{limit} messages held")

    limit_is_reached(40)
    operator.change(PER_CONSUMER, 300, "namespace", "POST", f"{NAMESPACE_PATH}/{PER_CONSUMER}", 300)
    limit_is_reached(300)
    operator.change(PER_CONSUMER, 100, "topic", "POST", f"{TOPIC_PATH}/maxUnackedMessagesOnConsumer", 100)
    limit_is_reached(100)
    of_subscription = f"{TOPIC_PATH}/maxUnackedMessagesOnSubscription"
    operator.change(PER_SUBSCRIPTION, 70, "topic", "POST", of_subscription, 70)
    hold_until(holders, lambda: sum(operator.held()) >= 70, "70 messages held by all")
    operator.change(PER_SUBSCRIPTION, 200_000, "broker", "DELETE", of_subscription)
    operator.change(PER_CONSUMER, 300, "namespace", "DELETE", f"{TOPIC_PATH}/maxUnackedMessagesOnConsumer")
    operator.change(RATE_OF_TOPIC, 50, "namespace", "POST", f"{NAMESPACE_PATH}/dispatchRate", rate(50))
    time.sleep(4)
    operator.change(RATE_OF_TOPIC, 120, "topic", "POST", f"{TOPIC_PATH}/dispatchRate", rate(120))
    time.sleep(4)
    of_one = f"{TOPIC_PATH}/{SUBSCRIPTION}/dispatchRate"
    operator.change(RATE_OF_SUBSCRIPTION, 30, "subscription", "POST", of_one, rate(30))
    time.sleep(4)
    operator.change(RATE_OF_SUBSCRIPTION, 0, "broker", "DELETE", of_one)
    operator.change(RATE_OF_TOPIC, 50, "namespace", "DELETE", f"{TOPIC_PATH}/dispatchRate")
    operator.change(RATE_OF_TOPIC, 0, "broker", "DELETE", f"{NAMESPACE_PATH}/dispatchRate")
    time.sleep(2)
    return operator.changes


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Change]]:
    """A trace of a broker that stopped in order, and what changed in it."""
    folder = tmp_path_factory.mktemp("recorded") / "traces"
    folder.mkdir()
    options = {PER_CONSUMER: 40, "FileSeconds": 3, "SnapshotMs": 100, "FlushMs": 50}
    with recording_broker(folder, **options) as broker:
        with traffic(broker) as holders:
            changes = settings_change(broker, holders)
        assert broker.metric("rows_dropped_total") == 0
        assert broker.metric("hook_errors_total") == 0
    (trace,) = folder.iterdir()
    return trace, changes


def rows_of_settings(trace: Path) -> list[dict[str, Any]]:
    return sorted((row for row in complete_rows(trace) if row["event"] == "settings"), key=lambda row: int(row["seq"]))


def test_each_change_has_a_row_and_no_other_value_was_ever_in_force(recorded: tuple[Path, list[Change]]) -> None:
    trace, changes = recorded
    rows = rows_of_settings(trace)
    for name in {change.name for change in changes}:
        said = [(row, row["settings"][name]) for row in rows if name in row["settings"]]
        moved = [(row, value) for at, (row, value) in enumerate(said) if at and value != said[at - 1][1]]
        made = [change for change in changes if change.name == name]
        assert [value for _, value in moved] == [change.value for change in made]
        for (row, _), change in zip(moved, made, strict=True):
            assert change.asked_us <= row["ts_us"] <= change.seen_us
            assert row["sources"][name] == change.source
            assert row["seq_begin"] < row["seq"]


def limits_at(rows: list[dict[str, Any]], name: str, begin: int, end: int) -> set[int]:
    """The values of a setting that may have been in force at some row between two."""
    found: set[int] = set()
    former: int | None = None
    for row in rows:
        if name in row["settings"]:
            value = row["settings"][name]
            if row["seq"] > begin and former is not None:
                found.add(former)
            if row.get("seq_begin", row["seq"]) >= end:
                return found
            former = value
    return found | {former} if former is not None else found


def test_no_consumer_holds_more_than_the_limit_in_force(recorded: tuple[Path, list[Change]]) -> None:
    trace, _ = recorded
    rows = rows_of_settings(trace)
    reached: set[int] = set()
    for snapshot in snapshots(row for row in complete_rows(trace) if row["event"] == "stats"):
        limits = limits_at(rows, PER_CONSUMER, snapshot.seq_begin, snapshot.seq_end)
        held = max((consumer.unacked or 0 for consumer in snapshot.consumers), default=0)
        assert held <= max(limits), snapshot
        if len(limits) == 1 and held == max(limits):
            reached |= limits
    # Each limit held the consumers up, so that a wrong one would have shown.
    assert reached == {40, 100, 300}


def test_dispatches_keep_to_the_rate_in_force(recorded: tuple[Path, list[Change]]) -> None:
    trace, changes = recorded
    limited = [change for change in changes if change.value in (50, 120, 30) and change.source != "namespace"]
    limited += [change for change in changes if change.value == 50][:1]
    assert len(limited) == 3
    starts = [row["ts_us"] for row in complete_rows(trace) if (row["event"], row.get("phase")) == ("dispatch", "start")]
    for change in limited:
        # A read may take what is left of the second before. A busy broker reads later than once a second, so that
        # less than three seconds' worth shows no other limit; none at all would mean that something else held it up.
        sent = sum(change.seen_us + 1_000_000 <= ts < change.seen_us + 4_000_000 for ts in starts)
        assert 0 < sent <= change.value * 4, change


def test_the_audit_judges_by_the_settings_in_force(recorded: tuple[Path, list[Change]], tmp_path: Path) -> None:
    trace, _ = recorded
    report = audited(trace, tmp_path / "audit")
    findings = DeltaTable(str(tmp_path / "audit" / "violations")).to_pyarrow_table().to_pylist()
    assert not [found for found in findings if found["rule"] in ("unacked_limit", "stalled", "settings_mismatch")]
    assert (report["verdict"], report["quarantined"]) == ("clean", 0), report
    assert report["completeness"] > 0.99, report


def test_an_orderly_stop_loses_no_row(recorded: tuple[Path, list[Change]]) -> None:
    trace, _ = recorded
    rows = complete_rows(trace)
    assert not [row for row in rows if row["event"] == "gap"]
    assert [row["phase"] for row in rows if row["event"] == "reset"] == ["start", "end"]
    assert not list((trace / "events").glob("*.open"))
