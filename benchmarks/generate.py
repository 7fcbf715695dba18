"""Writes large traces of a broker without violations.

    .venv/bin/python -m benchmarks.generate big/ --events 12000000 --partitions 8 --consumers 10 --keys 10000

Every message gives five rows (publish, both sides of its dispatch and of its acknowledgement), more where a leave
sends it again. Ledger rollovers, draining hashes and redeliveries occur; snapshots and flow rows do not, and nothing
is broken: an audit that finds anything but `permitted` is wrong. `dispatch-audit validate` reads it like any trace.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from benchmarks.broker import PUBLISHED, Changes, Traffic, run
from benchmarks.stored_as import Source, store_as
from benchmarks.trace_columns import TrafficRows, batches, key_bytes, name_of, trace_schema
from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

Order = Literal["time", "random"]

VERSION = "4.0.8"
SETTINGS = {"subscriptionKeySharedUseConsistentHashing": True}
_START_US = 1_795_224_000_000_000
_JOIN_GAP_US = 1_000


@dataclass(frozen=True)
class Shape:
    """The shape of a generated trace.

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
    order: Order = "random"
    files: int = 8
    seed: int = 1


def write_trace(folder: Path, shape: Shape) -> int:
    """Writes `trace.json` and Parquet files into a new folder; returns the number of rows."""
    events = folder / "events.parquet"
    events.mkdir(parents=True)
    (folder / "trace.json").write_text(json.dumps(_manifest(shape), indent=1) + "\n")
    rng = np.random.default_rng(shape.seed)
    rows = rows_of(shape, rng)
    size = rows.event.size
    order = rng.permutation(size) if shape.order == "random" else np.arange(size)
    for number, part in enumerate(np.array_split(order, shape.files)):
        with pq.ParquetWriter(events / f"part-{number:05}.parquet", trace_schema()) as file:
            for batch in batches(rows, part):
                file.write_batch(batch)
    return size


def rows_of(shape: Shape, rng: np.random.Generator) -> TrafficRows:
    """Returns the rows of all partitions, in the order of time."""
    keys_of: list[NDArray[np.int64]] = []
    return _in_order([_partition(shape, rng, keys_of) for _ in range(shape.partitions)], shape, keys_of)


def _manifest(shape: Shape) -> dict[str, object]:
    return {
        "trace_format": 1,
        "pulsar_version": VERSION,
        "settings": SETTINGS,
        "recorder": {"name": "benchmarks.generate", "version": "1"},
        "complete_from_start": True,
        "note": note_of(shape),
    }


def note_of(shape: Shape) -> str:
    """Returns the note in `trace.json` on the shape of a trace; equal if and only if the shape is."""
    return f"generated: {shape}"


def _partition(shape: Shape, rng: np.random.Generator, keys_of: list[NDArray[np.int64]]) -> Traffic:
    """The traffic of one partition; notes the key of each of its messages."""
    messages = max(shape.events // (5 * shape.partitions), 1)
    # The square makes low numbers busy: one in a hundred of the keys gets a tenth of the messages.
    key = (shape.keys * rng.random(messages) ** 2).astype(np.int64)
    keys_of.append(key)
    _, hash_of_key = _hashes_of_keys(shape.keys)
    begin, span = _START_US + shape.consumers * _JOIN_GAP_US, messages * 1_000_000 // shape.rate
    published = begin + np.sort(rng.integers(0, max(span, 1), messages))
    work = np.maximum(rng.exponential(shape.work_ms * 1000, messages), 100).astype(np.int64)
    return run(published, hash_of_key[key].astype(np.int64), work, _changes(shape, begin, span))


@lru_cache(maxsize=4)
def _hashes_of_keys(keys: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The different hashes of so many keys, and the index of each key's hash among them."""
    sticky = sticky_hashes([key_bytes(number) for number in range(keys)], "consistent_hashing")
    return np.unique(sticky, return_inverse=True)


@lru_cache(maxsize=4)
def _changes(shape: Shape, begin: int, span: int) -> Changes:
    """The membership changes of each partition, from the first publish on within `span` microseconds."""
    # Cached, because thousands of partitions have the same.
    hashes, _ = _hashes_of_keys(shape.keys)
    selector = make_selector("consistent_hashing", profile=profile_for(VERSION, SETTINGS))
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
    for n, (_, consumer, joins) in enumerate(changes):
        if joins:
            selector.add(consumer, name_of(consumer))
        else:
            selector.remove(consumer)
        owners[n] = selector.routing().owners_of(hashes)
    at_us, consumers, kinds = (np.array(column, dtype=np.int64) for column in zip(*changes, strict=True))
    return Changes(at_us, consumers, kinds, owners)


def _in_order(traffic: list[Traffic], shape: Shape, keys_of: list[NDArray[np.int64]]) -> TrafficRows:
    """The rows of all partitions as one recorder numbers them."""
    partition = np.repeat(np.arange(len(traffic), dtype=np.int32), [t.what.size for t in traffic])
    what, at_us, message, consumer = (np.concatenate(column) for column in zip(*traffic, strict=True))
    order = np.argsort(at_us, kind="stable")
    # A publish is one row; everything else has a start and an end.
    each = np.repeat(order, np.where(what[order] == PUBLISHED, 1, 2))
    late = np.concatenate(([False], each[1:] == each[:-1]))
    # Consumers are numbered through; no partition has as many.
    number = partition[each] * (shape.consumers + shape.changes) + consumer[each]
    return TrafficRows(
        event=what[each].astype(np.int8),
        late=late,
        ts_us=at_us[each],
        partition=partition[each],
        message=message[each],
        consumer=np.where(consumer[each] < 0, -1, number),
        name=consumer[each],
        keys_of=keys_of,
    )


def main(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    events: Annotated[int, typer.Option(help="Rows, about.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Topic partitions.")] = 8,
    consumers: Annotated[int, typer.Option(help="Consumers of each partition, at the start.")] = 10,
    keys: Annotated[int, typer.Option(help="Keys of each partition.")] = 10_000,
    changes: Annotated[int, typer.Option(help="Joins and leaves on each partition.")] = 20,
    rate: Annotated[int, typer.Option(help="Messages a second, on each partition.")] = 2_000,
    work_ms: Annotated[int, typer.Option(help="Mean time to the acknowledgement, milliseconds.")] = 50,
    order: Annotated[Order, typer.Option(help="Of the rows.")] = "random",
    files: Annotated[int, typer.Option(help="Parquet files.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 1,
    source: Annotated[Source, typer.Option(help="As what the log is stored.")] = "parquet",
) -> None:
    """Writes a large trace without a violation."""
    shape = Shape(events, partitions, consumers, keys, changes, rate, work_ms, order, files, seed)
    written = write_trace(folder, shape)
    store_as(folder, source)
    print(f"{written} rows in {folder}")  # noqa: T201 - its output


if __name__ == "__main__":
    typer.run(main)
