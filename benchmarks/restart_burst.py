"""Measures a restart of twenty consumers at once: replays the same traffic with and without it, without Spark.

    .venv/bin/python -m benchmarks.restart_burst --events 1000000 --rounds 5

Half way through the trace all consumers leave and come back under their names within some milliseconds. The rows of
these changes overlap: the first side comes up to 30 ms before the change and the second up to 100 ms after it, in any
order with those of the others, and traffic goes on in between. There is no snapshot, so only dispatches show in which
order the changes happened. Rounds replay one trace after the other, so that what else the machine does meets both;
figures are medians of the seconds that this process computed. The aim is a ratio below 2.
"""

import json
import statistics
import time
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from benchmarks.broker import JOINED, LEFT, PUBLISHED, Changes, Ints, Traffic, run
from benchmarks.generate import SETTINGS, VERSION
from benchmarks.trace_columns import TrafficRows, batches, key_bytes, name_of, topic_of, with_all_columns
from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

_GROUP: Final = Group(topic_of(0), "ks")
_SKEW_US: Final = 10_000
_START_US: Final = 1_795_224_000_000_000
_JOIN_GAP_US: Final = 100_000
_KEYS: Final = 10_000
_WORK_US: Final = 50_000
_RATE: Final = 2_000
_BEFORE_US: Final = 30_000
_AFTER_US: Final = 100_000


class Change(NamedTuple):
    """A consumer joins, or else leaves; `name` is its number among the clients."""

    at_us: int
    consumer: int
    name: int
    joins: bool


def trace_with(restarts: bool, events: int, consumers: int, within_us: int, seed: int) -> list[pa.RecordBatch]:
    """The rows of one subscription, in the order of time, with the columns that `pack` takes.

    Args:
        restarts: whether all consumers restart half way.
        events: about how many rows.
        consumers: how many.
        within_us: in which time they leave; each comes back within the same time.
        seed: of the random numbers; the traffic is the same with a restart and without.
    """
    rng = np.random.default_rng(seed)
    messages = events // 5
    span = messages * 1_000_000 // _RATE
    begin = _START_US + consumers * _JOIN_GAP_US
    key = (_KEYS * rng.random(messages) ** 2).astype(np.int64)
    published = begin + np.sort(rng.integers(0, span, messages))
    work = np.maximum(rng.exponential(_WORK_US, messages), 100).astype(np.int64)
    changes = [Change(_START_US + n * _JOIN_GAP_US, n, n, True) for n in range(consumers)]
    if restarts:
        left = begin + span // 2 + rng.permutation(within_us)[:consumers]
        back = left + rng.integers(1, within_us, consumers)
        changes += [Change(int(at), n, n, False) for n, at in enumerate(left)]
        changes += [Change(int(at), consumers + n, n, True) for n, at in enumerate(back)]
    changes.sort()
    sticky = sticky_hashes([key_bytes(number) for number in range(_KEYS)], "consistent_hashing")
    hashes, hash_of_key = np.unique(sticky, return_inverse=True)
    traffic = run(published, hash_of_key[key].astype(np.int64), work, _owned(changes, hashes))
    rows = _recorded(traffic, {change.consumer: change.name for change in changes}, key, rng)
    return [with_all_columns(batch) for batch in batches(rows, np.arange(rows.event.size))]


def _owned(changes: Sequence[Change], hashes: NDArray[np.int64]) -> Changes:
    selector = make_selector("consistent_hashing", profile=profile_for(VERSION, SETTINGS))
    owners = np.empty((len(changes), hashes.size), dtype=np.int32)
    for number, change in enumerate(changes):
        if change.joins:
            selector.add(change.consumer, name_of(change.name))
        else:
            selector.remove(change.consumer)
        owners[number] = selector.routing().owners_of(hashes)
    columns = ([c.at_us for c in changes], [c.consumer for c in changes], [int(c.joins) for c in changes])
    at_us, consumers, kinds = (np.array(column, dtype=np.int64) for column in columns)
    return Changes(at_us, consumers, kinds, owners)


def _recorded(traffic: Traffic, names: dict[int, int], key: Ints, rng: np.random.Generator) -> TrafficRows:
    """Both rows of everything but a publish; those of a membership change apart, those of traffic together."""
    whole = np.arange(traffic.what.size)
    each = np.concatenate([whole, whole[traffic.what != PUBLISHED]])
    late = np.arange(each.size) >= whole.size
    changed = np.isin(traffic.what[each], (JOINED, LEFT)) & (traffic.at_us[each] > traffic.at_us[0] + _AFTER_US)
    apart = np.where(late, rng.integers(0, _AFTER_US, each.size), -rng.integers(0, _BEFORE_US, each.size))
    ts_us = traffic.at_us[each] + np.where(changed, apart, 0)
    order = np.lexsort((late, each, ts_us))
    each, consumer = each[order], traffic.consumer[each[order]]
    name = np.array([names.get(int(number), -1) for number in range(-1, int(consumer.max()) + 1)])
    return TrafficRows(
        event=traffic.what[each].astype(np.int8),
        late=late[order],
        ts_us=ts_us[order],
        partition=np.zeros(each.size, dtype=np.int32),
        message=traffic.message[each],
        consumer=consumer,
        name=name[consumer + 1],
        keys_of=[key],
    )


class Replayed(NamedTuple):
    """CPU time of a replay, and its findings on a broker without violations."""

    cpu_s: float
    violations: int
    not_provable: int


def replayed(trace: Sequence[pa.RecordBatch]) -> Replayed:
    """Packs and replays a trace, up to the rows of all tables."""
    profile = profile_for(VERSION, SETTINGS)
    config = ReplayConfig(profile, VERSION, profile.broker(SETTINGS), _SKEW_US, 10_000_000)
    began = time.process_time()
    chunks = [chunk for batch in trace for chunk in pack(batch, profile)]
    violations = not_provable = 0
    for table, columns in replay_group(_GROUP, sorted(chunks, key=lambda chunk: chunk.first_seq), config, 100):
        if table == "metrics":
            violations += sum(map(int, columns["violations"])) + sum(map(int, columns["known_bug"]))
            not_provable += sum(map(int, columns["not_provable"]))
    return Replayed(time.process_time() - began, violations, not_provable)


def main(
    events: Annotated[int, typer.Option(min=1_000, help="Rows of each trace, about.")] = 1_000_000,
    consumers: Annotated[int, typer.Option(min=1, help="How many restart.")] = 20,
    within_ms: Annotated[int, typer.Option(min=1, help="They leave within this time, and are back as soon.")] = 40,
    rounds: Annotated[int, typer.Option(min=1, help="How often each trace is replayed.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 1,
    print_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measures what a restart of all consumers adds to the cost of a replay."""
    traces = {
        name: trace_with(restarts, events, consumers, within_ms * 1_000, seed)
        for name, restarts in (("steady", False), ("restart", True))
    }
    # Loads what is compiled.
    for restarts in (False, True):
        replayed(trace_with(restarts, 10_000, 3, within_ms * 1_000, seed))
    runs: dict[str, list[Replayed]] = {name: [] for name in traces}
    for _ in range(rounds):
        for name, trace in traces.items():
            runs[name].append(replayed(trace))
    figures: dict[str, float] = {"events": events, "consumers": consumers, "within_ms": within_ms, "rounds": rounds}
    for name, of_trace in runs.items():
        figures[f"{name}_rows"] = sum(batch.num_rows for batch in traces[name])
        figures[f"{name}_cpu_s"] = round(statistics.median(run.cpu_s for run in of_trace), 3)
        figures[f"{name}_violations"] = of_trace[0].violations
        figures[f"{name}_not_provable"] = of_trace[0].not_provable
    figures["ratio"] = round(figures["restart_cpu_s"] / figures["steady_cpu_s"], 2)
    if print_json:
        print(json.dumps(figures))  # noqa: T201 - its output
        return
    for name in traces:
        print(  # noqa: T201 - its output
            f"{name:8} {figures[f'{name}_rows']:8} rows {figures[f'{name}_cpu_s']:8.3f} s   "
            f"{figures[f'{name}_violations']} violations, {figures[f'{name}_not_provable']} not provable"
        )
    print(f"restart / steady: {figures['ratio']} (the aim is below 2)")  # noqa: T201 - its output


if __name__ == "__main__":
    typer.run(main)
