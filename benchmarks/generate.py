"""Writes large traces of a broker that keeps its promise.

    .venv/bin/python -m benchmarks.generate big/ --events 12000000 --partitions 8 --consumers 10 --keys 10000

Every message gives five rows (publish, both sides of its dispatch and of its acknowledgement), more where a leave
sends it again. Ledger rollovers, draining hashes and redeliveries occur; snapshots and flow rows do not, and nothing
is broken: an audit that finds anything but `permitted` is wrong. `dispatch-audit validate` reads it like any trace.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from benchmarks.broker import ACKED, JOINED, LEFT, PUBLISHED, SENT, Changes, Traffic, run
from pipeline.assignment import AssignmentLog
from pipeline.profile import profile_for
from udfs.sticky_key_hash import sticky_hashes

VERSION = "4.0.8"
_START_US = 1_795_224_000_000_000
_JOIN_GAP_US = 1_000
_LEDGER_ENTRIES = 50_000
_ROW_GROUP = 131_072

# The rows of the trace that each thing that happens gives: event, phase.
_ROWS = {
    PUBLISHED: [("publish", None)],
    SENT: [("dispatch", "start"), ("dispatch", "end")],
    ACKED: [("ack", "start"), ("ack", "end")],
    JOINED: [("join", "start"), ("join", "end")],
    LEFT: [("leave", "start"), ("leave", "end")],
}
_EVENTS = ["publish", "dispatch", "ack", "join", "leave"]
_POSITION = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class Shape:
    """What a trace is to look like.

    Attributes:
        events: about how many rows.
        partitions: topic partitions, each with one subscription.
        consumers: at the start, on each partition.
        keys: on each partition; some are much busier than others.
        changes: membership changes on each partition after the start, a leave after each join.
        rate: messages a second, on each partition.
        work_ms: mean time from dispatch to acknowledgement.
        order: of the rows in the files: of `time` as logs are, or `random`.
        files: into how many the rows are divided.
        seed: another one gives other traffic.
    """

    events: int = 1_000_000
    partitions: int = 8
    consumers: int = 10
    keys: int = 10_000
    changes: int = 20
    rate: int = 2_000
    work_ms: int = 50
    order: Literal["time", "random"] = "random"
    files: int = 8
    seed: int = 1


@dataclass(frozen=True)
class _Rows:
    """Integer columns of the rows of all partitions, in the order of seq."""

    event: NDArray[np.int8]
    late: NDArray[np.bool_]
    ts_us: NDArray[np.int64]
    partition: NDArray[np.int32]
    message: NDArray[np.int64]
    consumer: NDArray[np.int64]
    name: NDArray[np.int64]


def write_trace(folder: Path, shape: Shape) -> int:
    """Writes `trace.json` and Parquet files into a new folder; returns the number of rows."""
    events = folder / "events.parquet"
    events.mkdir(parents=True)
    (folder / "trace.json").write_text(json.dumps(_manifest(shape), indent=1) + "\n")
    rng = np.random.default_rng(shape.seed)
    keys_of: list[NDArray[np.int64]] = []
    rows = _in_order([_partition(shape, rng, keys_of) for _ in range(shape.partitions)], shape)
    size = rows.event.size
    order = rng.permutation(size) if shape.order == "random" else np.arange(size)
    for number, part in enumerate(np.array_split(order, shape.files)):
        with pq.ParquetWriter(events / f"part-{number:05}.parquet", _schema()) as file:
            for batch in _batches(rows, part, keys_of):
                file.write_batch(batch)
    return size


def _manifest(shape: Shape) -> dict[str, object]:
    return {
        "trace_format": 1,
        "pulsar_version": VERSION,
        "settings": {"subscriptionKeySharedUseConsistentHashing": True},
        "recorder": {"name": "benchmarks.generate", "version": "1"},
        "complete_from_start": True,
        "note": f"generated: {shape}",
    }


def _key(number: int) -> bytes:
    return f"customer-{number:08}".encode()


def _name(consumer: int) -> str:
    return f"c{consumer}"


def _partition(shape: Shape, rng: np.random.Generator, keys_of: list[NDArray[np.int64]]) -> Traffic:
    """The traffic of one partition; notes the key of each of its messages."""
    messages = max(shape.events // (5 * shape.partitions), 1)
    # The square makes low numbers busy: one in a hundred of the keys gets a tenth of the messages.
    key = (shape.keys * rng.random(messages) ** 2).astype(np.int64)
    keys_of.append(key)
    sticky = sticky_hashes([_key(number) for number in range(shape.keys)], "consistent_hashing")
    hashes, hash_of_key = np.unique(sticky, return_inverse=True)
    begin = _START_US + shape.consumers * _JOIN_GAP_US
    span = messages * 1_000_000 // shape.rate
    published = begin + np.sort(rng.integers(0, max(span, 1), messages))
    work = np.maximum(rng.exponential(shape.work_ms * 1000, messages), 100).astype(np.int64)
    return run(published, hash_of_key[key].astype(np.int64), work, _changes(shape, hashes, begin, span))


def _changes(shape: Shape, hashes: NDArray[np.int64], begin: int, span: int) -> Changes:
    settings = {"subscriptionKeySharedUseConsistentHashing": True}
    log = AssignmentLog("consistent_hashing", profile=profile_for(VERSION, settings))
    changes: list[tuple[int, int, int]] = [(_START_US + n * _JOIN_GAP_US, n, 1) for n in range(shape.consumers)]
    present, joined = list(range(shape.consumers)), shape.consumers
    for n in range(shape.changes):
        at = begin + span * (n + 1) // (shape.changes + 1)
        if n % 2 == 0:
            present.append(joined)
            changes.append((at, joined, 1))
            joined += 1
        else:
            changes.append((at, present.pop(0), 0))
    owners = np.empty((len(changes), hashes.size), dtype=np.int32)
    for n, (at, consumer, joins) in enumerate(changes):
        if joins:
            log.join(consumer, _name(consumer), None, at)
        else:
            log.leave(consumer, at)
        owners[n] = log.routing.owners_of(hashes)
    at_us, consumers, kinds = (np.array(column, dtype=np.int64) for column in zip(*changes, strict=True))
    return Changes(at_us, consumers, kinds, owners)


def _in_order(traffic: list[Traffic], shape: Shape) -> _Rows:
    """The rows of all partitions as one recorder numbers them."""
    partition = np.repeat(np.arange(len(traffic), dtype=np.int32), [t.what.size for t in traffic])
    what, at_us, message, consumer = (np.concatenate(column) for column in zip(*traffic, strict=True))
    order = np.argsort(at_us, kind="stable")
    sides = np.array([len(_ROWS[kind]) for kind in range(len(_ROWS))])[what[order]]
    each = np.repeat(order, sides)
    late = np.concatenate(([False], each[1:] == each[:-1]))
    # Consumers are numbered through; no partition has as many.
    number = partition[each] * (shape.consumers + shape.changes) + consumer[each]
    return _Rows(
        event=what[each].astype(np.int8),
        late=late,
        ts_us=at_us[each],
        partition=partition[each],
        message=message[each],
        consumer=np.where(consumer[each] < 0, -1, number),
        name=consumer[each],
    )


def _batches(rows: _Rows, part: NDArray[np.int64], keys_of: list[NDArray[np.int64]]) -> Iterator[pa.RecordBatch]:
    for start in range(0, part.size, _ROW_GROUP):
        yield _batch(rows, part[start : start + _ROW_GROUP], keys_of)


def _batch(rows: _Rows, at: NDArray[np.int64], keys_of: list[NDArray[np.int64]]) -> pa.RecordBatch:
    """The rows `at`, with the columns that recorders write."""
    event, late, message, partition = rows.event[at], rows.late[at], rows.message[at], rows.partition[at]
    published, sent, acked, joined = (event == kind for kind in (PUBLISHED, SENT, ACKED, JOINED))
    entry = published | sent
    key_number = np.full(at.size, 0, dtype=np.int64)
    for number, keys in enumerate(keys_of):
        of = entry & (partition == number)
        key_number[of] = keys[message[of]]
    distinct, key_at = np.unique(key_number, return_inverse=True)
    ledger, within = message // _LEDGER_ENTRIES, message % _LEDGER_ENTRIES
    of_consumer = ~published
    consumer, name = rows.consumer[at], rows.name[at]
    columns = {
        "event": _text(_EVENTS, event),
        "phase": _text(["start", "end"], late.astype(np.int8), ~published),
        "seq": pa.array(at + 1),
        "ts_us": pa.array(rows.ts_us[at]),
        "topic": _text([_topic(n) for n in range(len(keys_of))], partition),
        "subscription": _text(["ks"], np.zeros(at.size, dtype=np.int8), of_consumer),
        "ledger_id": _long(ledger, entry),
        "entry_id": _long(within, entry),
        "batch_size": pa.array(np.ones(at.size, dtype=np.int32), mask=~entry),
        "key": pa.DictionaryArray.from_arrays(
            pa.array(key_at, mask=~entry), pa.array([_key(n) for n in distinct], pa.binary())
        ).cast(pa.binary()),
        "key_source": _text(["partition_key"], np.zeros(at.size, dtype=np.int8), entry),
        "producer_name": _text([f"producer-{n}" for n in range(4)], message % 4, published),
        "sequence_id": _long(message // 4, published),
        "publish_time_ms": _long(rows.ts_us[at] // 1000, published),
        "size_bytes": pa.array(np.full(at.size, 1024), mask=~published),
        "consumer": _long(consumer, of_consumer),
        "consumer_name": _text([_name(n) for n in range(int(name.max()) + 1)], name, of_consumer),
        "consumer_id": _long(np.zeros(at.size, dtype=np.int64), of_consumer),
        "redelivery_count": pa.array(np.zeros(at.size, dtype=np.int32), mask=~(sent & ~late)),
        "ack_type": _text(["individual"], np.zeros(at.size, dtype=np.int8), acked),
        "positions": _positions(ledger, within, acked),
        "key_shared_mode": _text(["AUTO_SPLIT"], np.zeros(at.size, dtype=np.int8), joined),
        "reason": _text(["close_consumer"], np.zeros(at.size, dtype=np.int8), event == LEFT),
    }
    return pa.record_batch(list(columns.values()), schema=_schema())


def _topic(partition: int) -> str:
    return f"persistent://public/default/generated-partition-{partition}"


def _text(
    words: list[str],
    at: NDArray[np.signedinteger],
    where: NDArray[np.bool_] | None = None,  # type: ignore[type-arg]  # of any width
) -> pa.Array:
    indices = pa.array(np.maximum(at, 0), mask=None if where is None else ~where)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words)).cast(pa.string())


def _long(values: NDArray[np.int64], where: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~where)


def _positions(ledger: NDArray[np.int64], entry: NDArray[np.int64], acked: NDArray[np.bool_]) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(acked))).astype(np.int32)
    columns = [pa.array(ledger[acked]), pa.array(entry[acked]), pa.nulls(int(acked.sum()), _POSITION.field(2).type)]
    values = pa.StructArray.from_arrays(columns, fields=list(_POSITION))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(_POSITION), mask=pa.array(~acked))


def _schema() -> pa.Schema:
    text, long, integer = pa.string(), pa.int64(), pa.int32()
    types = {"key": pa.binary(), "positions": pa.list_(_POSITION), "batch_size": integer, "redelivery_count": integer}
    longs = ("seq", "ts_us", "ledger_id", "entry_id", "sequence_id", "publish_time_ms", "size_bytes", "consumer")
    names = (
        "event phase seq ts_us topic subscription ledger_id entry_id batch_size key key_source producer_name "
        "sequence_id publish_time_ms size_bytes consumer consumer_name consumer_id redelivery_count ack_type positions "
        "key_shared_mode reason"
    )
    return pa.schema([(n, types.get(n, long if n in (*longs, "consumer_id") else text)) for n in names.split()])


def main(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    events: Annotated[int, typer.Option(help="Rows, about.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Topic partitions.")] = 8,
    consumers: Annotated[int, typer.Option(help="Consumers of each partition, at the start.")] = 10,
    keys: Annotated[int, typer.Option(help="Keys of each partition.")] = 10_000,
    changes: Annotated[int, typer.Option(help="Joins and leaves on each partition.")] = 20,
    order: Annotated[str, typer.Option(help="Of the rows: time or random.")] = "random",
    files: Annotated[int, typer.Option(help="Parquet files.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 1,
    delta: Annotated[bool, typer.Option(help="Write the log as a Delta table, by Spark.")] = False,
) -> None:
    """Writes a large trace without a violation."""
    if order not in ("time", "random"):
        raise typer.BadParameter("time or random", param_hint="--order")
    rows_order = cast(Literal["time", "random"], order)
    shape = Shape(events, partitions, consumers, keys, changes, order=rows_order, files=files, seed=seed)
    written = write_trace(folder, shape)
    if delta:
        as_delta(folder)
    print(f"{written} rows in {folder}")  # noqa: T201 - its output


def as_delta(folder: Path) -> None:
    """Puts a Delta table with the same rows in the place of the Parquet files."""
    # Imported here, because Parquet is written without a JVM.
    from jobs.session import spark_session  # noqa: PLC0415

    parquet = folder / "events.parquet"
    spark = spark_session("dispatch-audit generate")
    spark.read.parquet(str(parquet)).write.format("delta").save(str(folder / "events.delta"))
    for file in parquet.iterdir():
        file.unlink()
    parquet.rmdir()


if __name__ == "__main__":
    typer.run(main)
