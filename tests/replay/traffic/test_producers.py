"""What is said of producers: batches, keys inside of them, keyless messages, chunks."""

import random

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import LOW, Columns, Log, batches, recorded_tables, tables_of
from numpy.typing import NDArray
from recorded import of_each

from dispatch_audit.pipeline.packing.producer_summary import (
    Producers,
    Published,
    published_parts,
)

# Seconds by itself.
pytestmark = pytest.mark.heavy


COUNTS = (
    "entries",
    "messages",
    "batches",
    "batches_inspected",
    "mixed_batches",
    "keyless_entries",
    "chunked_entries",
)


def _counts(log: Log) -> dict[str | None, tuple[int, ...]]:
    log.join(1)
    return {row["producer_name"]: tuple(row[c] for c in COUNTS) for row in tables_of(log.rows)["producers"]}


def test_entries_messages_and_batches_are_counted_by_producer() -> None:
    log = Log()
    log.publish(0, producer_name="a", sequence_id=0)
    log.publish(1, producer_name="b", sequence_id=0, batch_size=4)
    log.publish(2, producer_name="a", sequence_id=1, batch_size=3)
    log.publish(3)
    assert _counts(log) == {"a": (2, 4, 1, 0, 0, 0, 0), "b": (1, 4, 1, 0, 0, 0, 0), None: (1, 1, 0, 0, 0, 0, 0)}


@pytest.mark.parametrize(
    ("keys", "mixed"),
    [(["x", "x"], 0), (["x", "y"], 1), (["x", None], 1), ([None, None], 0), ([], 0)],
    ids=str,
)
def test_a_batch_is_mixed_if_its_messages_have_several_keys_none_being_one(keys: list[str | None], mixed: int) -> None:
    log = Log()
    log.publish(0, producer_name="p", batch_size=2, batch_keys=["z", "z"])
    log.publish(1, producer_name="p", batch_size=2, batch_keys=keys)
    log.publish(2, producer_name="p", batch_size=2)
    assert _counts(log)["p"] == (3, 6, 3, 2, mixed, 0, 0)


def test_keyless_is_what_has_no_key_or_says_so() -> None:
    log = Log()
    log.publish(0, None, producer_name="p", sequence_id=0)
    log.publish(1, b"p-1", key_source="none", producer_name="p", sequence_id=1)
    log.publish(2, b"", key_source="partition_key", producer_name="p", sequence_id=2)
    assert _counts(log)["p"][5] == 2


def test_entries_with_the_sequence_id_before_them_are_chunks() -> None:
    log = Log()
    # Another producer in between, and one that starts again after an unload, as its messages were not confirmed.
    for producer, sequence in [("p", 5), ("p", 5), ("q", 5), ("p", 5), ("p", 6), ("q", 6), ("q", 5), ("q", 6)]:
        log.publish(len(log.rows), producer_name=producer, sequence_id=sequence)
    assert {name: counts[6] for name, counts in _counts(log).items()} == {"p": 2, "q": 0}


def test_nothing_is_taken_for_a_chunk_without_a_sequence_id() -> None:
    log = Log()
    log.publish(0, producer_name="p")
    log.publish(1, producer_name="p")
    assert _counts(log)["p"][6] == 0


def test_a_row_that_is_repeated_in_its_batch_is_counted_once_and_is_no_chunk() -> None:
    log = Log()
    log.publish(0, producer_name="p", sequence_id=0, batch_size=3)
    log.publish(1, producer_name="p", sequence_id=1)
    (batch,) = batches([*log.rows, *log.rows], 100)
    rows = np.argsort(batch.column("seq").to_numpy(), kind="stable")
    assert _published(batch, rows).sent == _published(*_once(log)).sent


def _published(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> Published:
    return published_parts(batch, rows, np.zeros(rows.size, dtype=np.intp))[0]


def _once(log: Log) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    (batch,) = batches(log.rows, 100)
    return batch, np.arange(batch.num_rows)


def test_every_subscription_has_the_producers_of_its_topic() -> None:
    log = Log()
    log.publish(0, producer_name="p")
    log.join(1)
    log.subscription = "other"
    log.join(2)
    rows = tables_of(log.rows)["producers"]
    assert [(row["subscription"], row["entries"]) for row in rows] == [("ks", 1), ("other", 1)]


def _mixed_log(chance: random.Random) -> Log:
    log = Log()
    for entry in range(60):
        keys = [chance.choice(["x", "y", None]) for _ in range(chance.randint(1, 3))]
        name = chance.choice(["a", "b"])
        log.publish(entry, LOW, producer_name=name, sequence_id=entry // 3, batch_size=len(keys), batch_keys=keys)
    log.join(1)
    return log


@examples(20)
@given(st.randoms(use_true_random=False), st.integers(1, 62))
def test_any_cutting_gives_the_same_rows(chance: random.Random, rows_per_batch: int) -> None:
    rows = _mixed_log(chance).rows
    one, cut = tables_of(rows), tables_of(rows, rows_per_batch=rows_per_batch)
    for table in ("producers", "metrics", "violations"):
        assert one[table] == cut[table]


def test_what_travels_comes_back() -> None:
    log = _mixed_log(random.Random(1))
    (batch,) = batches(log.rows)
    found = _published(batch, np.arange(60))
    assert found.mixed
    assert published_parts(batch, np.arange(0), np.arange(0)) == {}


def test_parts_of_one_batch_are_summed_by_themselves() -> None:
    log = _mixed_log(random.Random(2))
    (batch,) = batches(log.rows)
    part = np.repeat(np.arange(3), 20)
    found = published_parts(batch, np.arange(60), part)
    assert found == {number: _published(batch, np.flatnonzero(part == number)) for number in range(3)}


def test_chunks_may_come_in_any_order() -> None:
    log = Log()
    for entry in range(6):
        log.publish(entry, producer_name="p", sequence_id=entry // 2)
    (batch,) = batches(log.rows)
    parts = [_published(batch, np.array(rows)) for rows in ([3, 4], [0], [1, 2], [5])]
    producers = Producers()
    for part in parts:
        producers.add(part)
    (sent,) = producers.all()
    assert (sent.entries, sent.chunked) == (6, 3)


def _findings(log: Log) -> list[Columns]:
    log.join(1)
    return [row for row in tables_of(log.rows)["violations"] if row["rule"] == "mixed_key_batch"]


def test_a_mixed_batch_is_a_fact_with_its_keys() -> None:
    log = Log()
    log.publish(7, LOW, producer_name="p", batch_size=3, batch_keys=["key-2", None, "key-3"])
    (row,) = _findings(log)
    assert (row["severity"], row["ledger_id"], row["entry_id"], row["seq"]) == ("info", 1, 7, 1)
    assert row["evidence"] == ["seq 1: 1:7 published by p with 3 messages of the keys key-2, no key, key-3"]
    assert "messages of 3 keys" in row["explanation"]


def test_of_many_the_first_are_shown_and_all_are_counted() -> None:
    log = Log()
    for entry in range(30):
        log.publish(entry, LOW, batch_size=2, batch_keys=["x", "y"])
    assert [row["entry_id"] for row in _findings(log)] == list(range(20))
    (row,) = [row for row in tables_of(log.rows)["metrics"] if row["rule"] == "mixed_key_batch"]
    assert (row["checked"], row["info"], row["violations"]) == (30, 30, 0)


@of_each(["mixed-batch-4.0.8"])
def test_the_mixed_batches_of_a_recording(name: str) -> None:
    tables = recorded_tables(name)
    (producer,) = tables["producers"]
    assert producer["batches"] == producer["batches_inspected"]
    assert producer["mixed_batches"] > 0.9 * producer["batches"]
    assert producer["entries"] == 1_342


@of_each(["ordering-and-null-key-4.0.8"])
def test_the_keyless_messages_of_a_recording(name: str) -> None:
    (producer,) = recorded_tables(name)["producers"]
    assert 0 < producer["keyless_entries"] < producer["entries"] == 2_969
    assert producer["batches"] == producer["chunked_entries"] == 0
