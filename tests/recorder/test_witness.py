"""What the audit of a recording finds is what a second observer saw inside of the same broker, no more and no less."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable
from real_broker import NEWEST
from recording_broker import complete_rows, each_release, recording_broker
from test_recorded_broker import audited
from witnessed_scenes import LIMIT, Look, Scene, bursts_under_load, consumers_at_their_limit

pytestmark = pytest.mark.broker

Dispatched = tuple[int, int, str]
"""A dispatch: ledger, entry, and name of the consumer."""
Sent = set[Dispatched]


class Observed(NamedTuple):
    """A broker while something happened.

    Attributes:
        release: of Pulsar.
        seen: what the witness wrote.
        looks: what the broker said of itself when nothing moved.
        trace: the recording.
        tables: those of the audit of the recording.
    """

    release: str
    seen: list[dict[str, Any]]
    looks: list[Look]
    trace: Path
    tables: Path

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table of the audit."""
        rows: list[dict[str, Any]] = DeltaTable(str(self.tables / table)).to_pyarrow_table().to_pylist()
        return rows

    def of_rule(self, rule: str) -> Sent:
        """The dispatches that certainly broke a rule."""
        certain = ("violation", "known_bug")
        found = [row for row in self.rows("violations") if row["rule"] == rule and row["severity"] in certain]
        return dispatches(found)


def scenes() -> Iterator[Any]:
    """Each scene on each release. The gate has each scene and both of its releases once."""
    in_gate = {consumers_at_their_limit: each_release(NEWEST), bursts_under_load: each_release("3.0.7")}
    for happens, releases in in_gate.items():
        for one in releases:
            release, marks = (one, ()) if isinstance(one, str) else (one.values[0], one.marks)
            yield pytest.param((release, happens), marks=marks, id=f"{happens.__name__}-{release}")


@pytest.fixture(scope="module", params=list(scenes()))
def observed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """What happened on a broker, as it was seen and as it was audited."""
    release: str
    happens: Callable[[Scene], list[Look]]
    release, happens = request.param
    made = tmp_path_factory.mktemp("observed")
    (made / "traces").mkdir()
    settings = {"maxUnackedMessagesPerConsumer": LIMIT, "SnapshotMs": 200}
    with recording_broker(made / "traces", release, made / "witness.jsonl", **settings) as broker:
        with closing(Scene(broker)) as scene:
            looks = happens(scene)
        assert broker.metric("rows_dropped_total") == 0
    (trace,) = (made / "traces").iterdir()
    # A machine with other work may hold up the reads of a broker for seconds, which no witness sees.
    (made / "audit.toml").write_text("[blocking]\nstall_threshold_ms = 30000\n")
    audited(trace, made / "audit", "--config", made / "audit.toml")
    seen = [json.loads(line) for line in (made / "witness.jsonl").read_text().splitlines()]
    return Observed(release, seen, looks, trace, made / "audit")


def dispatched(row: dict[str, Any]) -> Dispatched:
    return row["ledger_id"], row["entry_id"], row["consumer_name"]


def dispatches(rows: Iterable[dict[str, Any]]) -> Sent:
    return set(map(dispatched, rows))


def test_second_holders_are_those_that_the_broker_had(observed: Observed) -> None:
    second = dispatches([line for line in observed.seen if line["holders"]])
    # F2 of 3.x: what waits for a consumer goes to a newcomer (contract 6.5).
    assert bool(second) == (observed.release < "4")
    let_go = let_go_around_dispatches(observed.trace)
    certain = dispatches([line for line in observed.seen if set(line["holders"]) - let_go.before[dispatched(line)]])
    found = observed.of_rule("single_holder")
    assert certain <= found
    assert found - let_go.meanwhile <= second


class LetGo(NamedTuple):
    """Where the trace and the witness need not agree, because a consumer acknowledges or leaves.

    Attributes:
        before: for each dispatch, the consumers that were about to acknowledge entries of its key, or to leave. While
            the row of an end is on its way, the trace does not show what came first.
        meanwhile: the dispatches during which a consumer began to do so. The witness looks after the row is written,
            and a busy machine may hold it up in between.
    """

    before: defaultdict[Dispatched, set[str]]
    meanwhile: Sent


def let_go_around_dispatches(trace: Path) -> LetGo:
    """Who let go of entries around each dispatch."""
    before: defaultdict[Dispatched, set[str]] = defaultdict(set)
    meanwhile: Sent = set()
    under_way: dict[str, Sent] = defaultdict(set)
    acknowledging: dict[str, Counter[str]] = defaultdict(Counter)
    leaving: set[str] = set()
    keys: dict[tuple[int, int], str] = {}
    for row in sorted(complete_rows(trace), key=lambda row: int(row["seq"])):
        match row:
            case {"event": "dispatch", "phase": "start", "key_b64": key}:
                keys[row["ledger_id"], row["entry_id"]] = key
                before[dispatched(row)] |= leaving | set(+acknowledging[key])
                under_way[key].add(dispatched(row))
            case {"event": "dispatch", "phase": "end"}:
                under_way[keys[row["ledger_id"], row["entry_id"]]].discard(dispatched(row))
            case {"event": "ack", "phase": phase, "consumer_name": name, "positions": positions}:
                for position in positions:
                    key = keys[position["ledger_id"], position["entry_id"]]
                    acknowledging[key][name] += 1 if phase == "start" else -1
                    meanwhile |= under_way[key] if phase == "start" else set()
            case {"event": "leave", "phase": phase, "consumer_name": name}:
                (leaving.add if phase == "start" else leaving.discard)(name)
                meanwhile.update(*under_way.values() if phase == "start" else ())
    return LetGo(before, meanwhile)


def test_entries_that_were_sent_twice_are_those_that_the_broker_sent_twice(observed: Observed) -> None:
    again = dispatches([line for line in observed.seen if line["again"]])
    elsewhere = dispatches([line for line in observed.seen if line["elsewhere"]])
    found = observed.of_rule("early_duplicate")
    # While a row of an acknowledgement or a leave is on its way, the trace does not show what came first.
    assert again - sent_to_leavers(observed.trace) <= found <= again | elsewhere


def sent_to_leavers(trace: Path) -> Sent:
    """What was sent to consumers that had begun to leave."""
    leaving: set[str] = set()
    sent = []
    for row in sorted(complete_rows(trace), key=lambda row: int(row["seq"])):
        if row["event"] == "leave":
            leaving.add(row["consumer"])
        elif row["event"] == "dispatch" and row["consumer"] in leaving:
            sent.append(row)
    return dispatches(sent)


def test_late_first_deliveries_are_those_that_the_broker_made(observed: Observed) -> None:
    latest: dict[str, tuple[int, int]] = {}
    first: set[tuple[int, int]] = set()
    late = []
    for line in observed.seen:
        position = line["ledger_id"], line["entry_id"]
        if position in first:
            continue
        first.add(position)
        if position < latest.get(line["key"], position):
            late.append(line)
        latest[line["key"]] = max(position, latest.get(line["key"], position))
    assert observed.of_rule("first_delivery_order") == dispatches(late)


def test_nothing_else_is_found(observed: Observed) -> None:
    allowed = ("single_holder", "early_duplicate", "first_delivery_order")
    unexplained = [
        (row["rule"], row["seq"], row["explanation"])
        for row in observed.rows("violations")
        if row["rule"] not in allowed and row["severity"] not in ("info", "permitted") and not left_open(row)
    ]
    assert unexplained == []


def left_open(row: dict[str, Any]) -> bool:
    """Whether a finding is what joins and leaves at one time leave open, or a read that takes long.

    No row shows how many of them a snapshot has, nor what a replay read of a broker under load has in flight (E7). And
    a release with #26471 may go on to count an entry as draining that was acknowledged while its hash moved (contract
    3.12).
    """
    if row["severity"] == "not_provable":
        order, in_flight = "the trace does not show in which order these happened", "may have had it in flight (E7)"
        return order in row["explanation"] or in_flight in row["explanation"]
    return row["rule"] == "draining_mismatch" and "reports more entries than the trace allows" in row["explanation"]


def reported_ranges(stats: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    for consumer in stats["consumers"]:
        # Brokers before 4.0 give each range as text.
        for one in consumer.get("keyHashRangeArrays") or map(json.loads, consumer["keyHashRanges"]):
            yield consumer["consumerName"], *one


def open_at(look: Look, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["from_ts_us"] <= look.ts_us < (row["to_ts_us"] or look.ts_us + 1)]


def test_ranges_are_those_of_the_broker(observed: Observed) -> None:
    table = observed.rows("assignments")
    for look in observed.looks:
        now = open_at(look, table)
        found = {(row["consumer_name"], row["range_start"], row["range_end"]) for row in now}
        assert found == set(reported_ranges(look.stats))


def test_draining_hashes_are_those_of_the_broker(observed: Observed) -> None:
    table = observed.rows("draining")
    drained = 0
    for look in observed.looks:
        reported = {
            (one["hash"], consumer["consumerName"])
            for consumer in look.stats["consumers"]
            for one in consumer.get("drainingHashes") or ()
        }
        now = open_at(look, table)
        found = {(row["sticky_hash"], row["holder_name"]) for row in now}
        # The broker forgets a hash that went back to its holder when it next sends something of it (contract 3).
        returned = {(row["sticky_hash"], row["holder_name"]) for row in now if row["returned_seq"] is not None}
        assert found - returned <= reported <= found
        drained += len(reported)
    # From 4.0 on: before, newcomers wait for what was read before they joined.
    assert bool(drained) == (observed.release >= "4")
