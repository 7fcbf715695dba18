"""What is shown of a client's trace: nothing that the client could not have seen, and nothing as proven."""

from typing import Any

import pytest
from local_replay import tables_of

from dispatch_audit.pipeline.errors import LimitError


class Calls:
    """Rows of a client, one call after the other."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, event: str, **columns: Any) -> None:
        seq = len(self.rows) + 1
        self.rows.append(
            {"event": event, "seq": seq, "ts_us": 1_000_000 + seq, "topic": "t", "subscription": "s", **columns}
        )

    def join(self, consumer: int, *, out_of_order: bool = False) -> None:
        self.add("join", phase="end", consumer=consumer, consumer_name=f"c{consumer}", allow_out_of_order=out_of_order)

    def receive(self, consumer: int, entry: int, key: bytes | None = b"a", redelivered: int = 0) -> None:
        keyed = {} if key is None else {"key": key}
        self.add(
            "dispatch",
            phase="end",
            consumer=consumer,
            ledger_id=1,
            entry_id=entry,
            redelivery_count=redelivered,
            **keyed,
        )

    def ack(self, consumer: int, entry: int) -> None:
        position = {"ledger_id": 1, "entry_id": entry}
        self.add("ack", phase="start", consumer=consumer, ack_type="individual", positions=[position])

    def give_back(self, consumer: int, *entries: int) -> None:
        self.add("redeliver", consumer=consumer, positions=[{"ledger_id": 1, "entry_id": entry} for entry in entries])


def found(calls: Calls, **config: Any) -> list[dict[str, Any]]:
    """The findings of some calls."""
    tables = tables_of(calls.rows, version="4.2.4", recorded_by="client", complete_from_start=False, **config)
    rows = tables["violations"]
    assert {row["severity"] for row in rows} <= {"not_provable"}
    (covered,) = tables["coverage"]
    keyed = [row for row in calls.rows if row["event"] == "dispatch" and "key" in row]
    ordered = not any(row.get("allow_out_of_order") for row in calls.rows)
    assert covered["rows_judged"] == (len(keyed) if ordered else 0)
    assert covered["rows"] == len(calls.rows)
    return rows


def test_an_older_entry_of_a_key_that_comes_later_is_shown() -> None:
    calls = Calls()
    calls.join(1)
    for entry in (0, 2, 1):
        calls.receive(1, entry)
        calls.ack(1, entry)
    calls.receive(1, 7, key=b"b")
    calls.receive(1, 6, key=None)
    (row,) = found(calls)
    assert (row["rule"], row["entry_id"], row["consumer_name"]) == ("first_delivery_order", 1, "c1")
    assert row["evidence"] == ["seq 4: c1 (consumer 1) received 1:2", "seq 6: c1 (consumer 1) received 1:1"]
    assert row["against"] == "the later entry 1:2 of the key had been received (seq 4)"
    assert row["why"][0].startswith("not provable: a client sees no seek, unload or reconnect")


def test_redelivered_and_repeated_entries_are_no_first_receives() -> None:
    calls = Calls()
    calls.join(1)
    for entry in (0, 1):
        calls.receive(1, entry)
    calls.give_back(1, 0)
    calls.receive(1, 2)
    calls.receive(1, 0, redelivered=1)
    calls.receive(1, 1)  # again, after a reconnect
    calls.receive(1, 4)
    calls.receive(1, 3, redelivered=1)  # another consumer gave it back
    assert found(calls) == []


def test_two_consumers_with_open_entries_of_a_key_are_shown() -> None:
    calls = Calls()
    calls.join(1)
    calls.join(2)
    calls.receive(1, 0)
    calls.receive(2, 1)
    (row,) = found(calls)
    assert (row["rule"], row["entry_id"], row["consumer"], row["other_consumer"]) == ("single_holder", 1, 2, 1)
    assert "while c1 (consumer 1) had neither acknowledged nor given back entry 1:0" in row["explanation"]


@pytest.mark.parametrize("how", ["ack", "give_back", "everything", "leave", "seek", "other key", "out of order"])
def test_what_settles_an_entry_is_no_finding(how: str) -> None:
    calls = Calls()
    calls.join(1, out_of_order=how == "out of order")
    calls.join(2)
    calls.receive(1, 1)
    if how == "ack":
        calls.ack(1, 1)
    elif how == "give_back":
        calls.give_back(1, 1)
    elif how == "everything":
        calls.give_back(1)
    elif how == "leave":
        calls.add("leave", phase="start", consumer=1, reason="close_consumer")
    elif how == "seek":
        calls.add("reset", phase="start", reason="seek")
    calls.receive(2, 2, key=b"b" if how == "other key" else b"a")
    calls.receive(1, 0, key=b"c")
    assert found(calls) == []


def test_memory_is_bounded_by_open_messages() -> None:
    calls = Calls()
    for entry in range(1000):
        calls.receive(1, entry)
        calls.ack(1, entry)
    assert found(calls, open_entries_max=1) == []
    calls.receive(1, 1000)
    calls.receive(1, 1001)
    with pytest.raises(LimitError, match="more than 1 received messages are open at seq 2002"):
        found(calls, open_entries_max=1)


@pytest.mark.parametrize(("seq", "seq_end", "shown"), [(4, 4, False), (3, 9, False), (1, 2, True), (6, 6, True)])
def test_what_rows_in_a_gap_may_explain_is_not_shown(seq: int, seq_end: int, shown: bool) -> None:
    calls = Calls()
    for consumer in (1, 2):
        calls.join(consumer)
    calls.receive(1, 0)
    calls.add("ack", phase="start", consumer=1, ack_type="individual", positions=[{"ledger_id": 1, "entry_id": 9}])
    calls.receive(2, 1)
    rows = [row for row in calls.rows if row["seq"] != seq]
    calls.rows = [*rows, {**calls.rows[0], "event": "gap", "seq": seq, "seq_end": seq_end, "dropped": 1}]
    assert [row["rule"] for row in found(calls)] == (["single_holder"] if shown else [])
