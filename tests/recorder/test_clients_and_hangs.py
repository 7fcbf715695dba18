"""What clients of all kinds leave in the recording of a broker that hangs and starts anew, and what its audit says."""

import base64
import gzip
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from churn import TOPIC
from client_scenes import (
    BLOCKED_MS,
    FILTERS,
    INSTANCES,
    KEYS,
    LASTS,
    MESSAGES,
    RESTARTED,
    STARTS,
    SWITCHED,
    TAKEN,
    TRANSACTIONS,
    filter_entries,
    filtered_topic,
    restart_one_by_one,
    send_batches_and_hang,
    stop_and_start,
    switch_the_type,
)
from deltalake import DeltaTable
from other_project import run_tests
from program import run
from real_broker import NEWEST
from recording_broker import complete_rows, each_release, recording_broker

from dispatch_audit.pipeline.utc import moment

pytestmark = pytest.mark.broker

BATCHES_READ = 10

Row = dict[str, Any]


class Recorded:
    """The traces of a broker of a release, one for each of its starts, and their audit."""

    def __init__(self, release: str, traces: Path) -> None:
        self.release = release
        self.starts = sorted(traces.iterdir())
        self.rows = complete_rows(self.starts[0])
        self.traces = traces

    @cached_property
    def said(self) -> str:
        """What the audit prints of all starts together."""
        out = self.traces.with_name("audit")
        done = run("audit", self.traces, "--out", out, "--engine", "embedded", "--fail-on", "never", "--findings", 99)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def found(self, topic: str) -> list[Row]:
        """The findings in a topic."""
        return self._rows("violations", topic)

    def blocked(self, topic: str) -> list[Row]:
        """The intervals of waiting in a topic."""
        return self._rows("blocking", topic)

    def _rows(self, name: str, topic: str) -> list[Row]:
        assert self.said
        table = DeltaTable(str(self.traces.with_name("audit") / name)).to_pyarrow_table()
        return [row for row in table.to_pylist() if row["topic"] == topic]

    def wrong(self, topic: str, *, open_too: bool = True) -> list[tuple[str, str]]:
        """The rules that were broken in a topic or, if `open_too`, may have been, with what each finding says."""
        severities = ("violation", "known_bug", *(["not_provable"] if open_too else []))
        return [(row["rule"], row["explanation"]) for row in self.found(topic) if row["severity"] in severities]


@pytest.fixture(scope="module", params=each_release("3.0.7", NEWEST))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """What a broker recorded of all scenes."""
    folder = tmp_path_factory.mktemp("recorded")
    traces = folder / "traces"
    traces.mkdir()
    settings = {
        "SnapshotMs": 200,
        "maxMessageSize": 1_000_000,
        "transactionCoordinatorEnabled": "true",
        "allowOverrideEntryFilters": "true",
        "entryFiltersDirectory": folder / "filters",
    }
    with recording_broker(traces, request.param, **settings) as broker:
        restart_one_by_one(broker)
        switch_the_type(broker)
        broker.abort_transactions(TRANSACTIONS)
        filter_entries(broker)
        send_batches_and_hang(broker)
        stop_and_start(broker)
    return Recorded(request.param, traces)


@pytest.fixture
def rows(recorded: Recorded) -> list[Row]:
    return recorded.rows


def of_topic(recorded: Recorded, topic: str, folder: Path) -> Path:
    """A trace with the rows of one topic, and those of no topic."""
    (folder / "events").mkdir(parents=True)
    shutil.copy(recorded.starts[0] / "trace.json", folder)
    with gzip.open(folder / "events" / "000001.jsonl.gz", "wt", compresslevel=1) as log:
        log.writelines(f"{json.dumps(row)}\n" for row in recorded.rows if row.get("topic", topic) == topic)
    return folder


def batches_of(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """The entries of each producer with several messages."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["event"] == "publish" and row["batch_size"] > 1:
            found[row["producer_name"]].append(row)
    return found


DEPLOYMENT = """
import json
from pathlib import Path

def test_deployment(audit_trace):
    result = audit_trace({trace!r}, engine="embedded", fail_on={conditions!r})
    names = result.table("consumers")["consumer_name"].to_pylist()
    seen = {{"order": result.order, "names": sorted(names), "ranges": result.table("assignments").num_rows}}
    Path("seen.json").write_text(json.dumps(seen))
"""


# The values in the order of the fixture: a broker that another test has is taken again.
@pytest.mark.parametrize("recorded", each_release(NEWEST), indirect=True)
def test_a_rolling_restart_keeps_order(recorded: Recorded, tmp_path: Path) -> None:
    """The check of a deployment, as docs/CI.md has it; in 3.x hashes move while their former owner holds entries."""
    drains = recorded.release >= "4"
    trace = of_topic(recorded, RESTARTED, tmp_path / "trace")
    conditions = "order,held-up:5s" if drains else "held-up:5s"
    # A process of its own: the session of the embedded engine would stay in this one.
    done = run_tests(tmp_path, DEPLOYMENT.format(trace=str(trace), conditions=conditions))
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["order"] in (("kept",) if drains else ("kept", "known_bug"))
    assert seen["names"] == [f"{when}-{number}" for when in ("after", "before") for number in range(INSTANCES)]
    assert seen["ranges"] > INSTANCES * 2, "hashes move with each join and leave"


def test_consumers_of_another_type_may_have_the_subscription(recorded: Recorded) -> None:
    rows = [row for row in recorded.rows if row.get("topic") == SWITCHED]
    ((seq, phase),) = ((row["seq"], row["phase"]) for row in rows if row.get("reason") == "other_type")
    assert phase == "start"
    (join,) = (row["seq"] for row in rows if row["event"] == "join" and row["seq"] > seq and row["phase"] == "end")
    assert sum(row["event"] == "publish" for row in rows if seq < row["seq"] < join) > TAKEN / 2
    # They are not missed, nor did they wait for a consumer.
    assert recorded.found(SWITCHED) == []
    assert [row for row in recorded.blocked(SWITCHED) if seq < row["from_seq"] < join] == []


def test_keys_in_the_first_batches_of_each_producer_are_recorded(rows: list[Row]) -> None:
    batches = batches_of(rows)
    assert {"mixes", "mixes-lz4", "by-key-zstd", "no-keys"} == set(batches)
    for producer, found in batches.items():
        for row in found[:BATCHES_READ]:
            keys = row["batch_keys"]
            assert len(keys) == row["batch_size"]
            if producer == "no-keys":
                assert set(keys) == {None}
            else:
                # A broker routes an entry by the key of its first message.
                assert keys[0].encode() == base64.b64decode(row["key_b64"])
                assert set(keys) <= {f"key {number} ä" for number in range(KEYS)}
            assert (len(set(keys)) > 1) == producer.startswith("mixes")


def test_entries_of_one_message_have_no_keys_of_a_batch(rows: list[Row]) -> None:
    alone = [row for row in rows if row["event"] == "publish" and row["producer_name"] in ("alone", "chunks")]
    assert len(alone) > 200
    assert not [row for row in alone if "batch_keys" in row]


def test_the_audit_names_the_producers_that_mix_keys(recorded: Recorded) -> None:
    batches = batches_of(recorded.rows)
    seen = {name: sum("batch_keys" in row for row in found) for name, found in batches.items()}
    for name in ("mixes", "mixes-lz4"):
        assert f"  {name}: {seen[name]} of {seen[name]} batches mix keys; " in recorded.said
    assert recorded.said.count("batch by key, or not at all") == 2, "by-key-zstd batches by key"
    assert f"mixed_key_batch: {seen['mixes'] + seen['mixes-lz4']} facts" in recorded.said
    assert f"  no-keys: {len(batches['no-keys'])} of " in recorded.said


def test_a_refused_join_has_the_words_of_the_broker(recorded: Recorded) -> None:
    refused = [row for row in recorded.rows if row["event"] == "join" and "consumer" not in row]
    (told,) = {(row["consumer_name"], row["phase"], row["reason"]) for row in refused}
    assert told == ("other", "start", "ConsumerBusy")
    assert all("limit" in row["error"] for row in refused)
    assert "the join of other was refused" in recorded.said
    assert "a limit allows no more (maxConsumersPerSubscription, maxConsumersPerTopic): 2 consumers" in recorded.said


def test_entry_filters_are_named_and_leave_order_open(recorded: Recorded) -> None:
    for name, counter in zip(FILTERS, ("filter_rejected_msg_count", "filter_rescheduled_msg_count"), strict=True):
        of_filter = [row for row in recorded.rows if row.get("topic") == filtered_topic(name)]
        first = next(row for row in of_filter if row["event"] == "settings")
        setting = "entryFilterNames"
        assert (first["settings"][setting], first["sources"][setting]) == (name, "namespace")
        assert max(row["snapshot"].get(counter, 0) for row in of_filter if row["event"] == "stats") > MESSAGES / 4
        assert recorded.wrong(filtered_topic(name), open_too=False) == []
    late = [row for row in recorded.found(filtered_topic("reschedules")) if row["severity"] == "not_provable"]
    assert {"first_delivery_order", "replay_overtaken"} <= {row["rule"] for row in late}
    assert all("entry filters are in force (reschedules)" in row["explanation"] for row in late)


def test_what_a_transaction_aborts_is_named_and_breaks_no_rule(recorded: Recorded) -> None:
    found = Counter(row["rule"] for row in recorded.found(TRANSACTIONS))
    acknowledged = {
        (position["ledger_id"], position["entry_id"])
        for row in recorded.rows
        if row["event"] == "ack" and "transaction" in row
        for position in row["positions"]
    }
    assert acknowledged
    assert found["aborted_acknowledgement"] == len(acknowledged)
    assert recorded.wrong(TRANSACTIONS) == []
    assert "the transaction in which it was acknowledged was aborted, or timed out" in recorded.said


def test_starts_of_a_broker_are_one_trace_in_which_order_is_kept(recorded: Recorded) -> None:
    assert len(recorded.starts) == STARTS
    sent = [
        {
            (row["ledger_id"], row["entry_id"])
            for row in complete_rows(start)
            if row["event"] == "dispatch" and row["topic"] == LASTS
        }
        for start in recorded.starts
    ]
    assert all(before & after for before, after in pairwise(sent)), "what a consumer held is sent again"
    assert f"Trace   {recorded.traces}\n" in recorded.said
    assert recorded.said.count("\nORDER  ") == 1
    assert recorded.wrong(LASTS) == []


def test_an_orderly_end_is_the_last_row_of_each_start(recorded: Recorded) -> None:
    for rows in map(complete_rows, recorded.starts):
        (end,) = (row for row in rows if row["event"] == "end")
        assert end["seq"] == max(row["seq"] for row in rows)


def test_the_recorder_writes_on_while_the_broker_hangs(rows: list[Row]) -> None:
    start, end = (row for row in rows if row["event"] == "hang")
    assert (start["phase"], end["phase"]) == ("start", "end")
    assert (start["seq_begin"], start["begun_us"]) == (end["seq_begin"], end["begun_us"])
    assert "held by thread blocks-the-dispatcher" in start["waits_for"]
    assert (end["ts_us"] - start["begun_us"]) / 1_000 >= BLOCKED_MS - 1_000
    beats = [row["ts_us"] for row in rows if row["event"] == "heartbeat" and "topic" not in row]
    assert len([beat for beat in beats if start["begun_us"] < beat < end["ts_us"]]) >= 3


def test_the_audit_says_since_when_the_broker_hung(recorded: Recorded) -> None:
    start = next(row for row in recorded.rows if row["event"] == "hang")
    ((rule, _),) = recorded.wrong(TOPIC)
    assert rule == "stalled"
    assert f"a snapshot that began at {moment(start['begun_us'])} got no locks until" in recorded.said
    assert "held by thread blocks-the-dispatcher" in recorded.said
    assert "PROGRESS  STALLED" in recorded.said
