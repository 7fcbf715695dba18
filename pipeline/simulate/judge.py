"""Judges a simulated partition by the audit's own replay, in this process."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from dispatch_audit.pipeline.groups.columns import Columns, Rows
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.groups.replay_rows import rows_in
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import Group, PackedBatch, rows_for
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.verdicts.finding import ALL
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.simulate.output.rows import EVENTS, SimulationRowWriter
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload
from dispatch_audit.pipeline.trace.manifest import Manifest, Recorder

# Bounds what a batch of rows needs while it is made and packed.
_EVENTS_MAX = 50_000
# A simulated row is written at the moment of its effect.
_SKEW_US = 0


def manifest_of(setup: Setup) -> Manifest:
    """The `trace.json` of a simulated trace."""
    recorder = Recorder(name="simulator", events=frozenset(EVENTS))
    return Manifest(pulsar_version=setup.version, settings=_recorded(setup.broker), recorder=recorder, note="simulated")


def _recorded(broker: Mapping[str, object]) -> dict[str, bool | int | float | str | None]:
    return {name: value for name, value in broker.items() if isinstance(value, bool | int | float | str)}


def config_of(setup: Setup, settings: Settings) -> ReplayConfig:
    """The configuration under which a simulated trace is judged."""
    config = replay_config(manifest_of(setup), setup.profile, settings, complete_from_start=True)
    return replace(config, skew_us=_SKEW_US)


def batches_of(simulation: PartitionSimulation) -> Iterable[pa.RecordBatch]:
    """Simulates to the end; yields the rows in batches while it runs."""
    writer = SimulationRowWriter(simulation.workload)
    for log in simulation.logs(_EVENTS_MAX):
        if len(log):
            yield writer.rows(*log.take())


def judged(
    simulation: PartitionSimulation, settings: Settings, keep: Callable[[pa.RecordBatch], object] = lambda _: None
) -> dict[str, Rows]:
    """Simulates a partition and audits what it wrote; returns the rows of the tables by table.

    Args:
        simulation: not begun yet.
        settings: of the audit.
        keep: is given the simulated rows, batch by batch.

    Raises:
        LimitError: more entries are open at one time than the settings allow.
    """
    return rows_by_table(judged_tables(simulation, settings, keep))


def judged_tables(
    simulation: PartitionSimulation, settings: Settings, keep: Callable[[pa.RecordBatch], object] = lambda _: None
) -> Iterator[tuple[str, Columns]]:
    """As `judged`, but yields columns as soon as they are known: the audit runs while the rows are simulated."""
    return tables_of(_kept(batches_of(simulation), keep), simulation.workload, config_of(simulation.setup, settings))


def tables_of(
    batches: Iterable[pa.RecordBatch], workload: PartitionWorkload, config: ReplayConfig
) -> Iterator[tuple[str, Columns]]:
    """Audits the rows of a simulation, given in batches in their order."""
    group = Group(workload.topic, workload.subscription)
    return replay_group(group, _packed(batches, group, config), config, ALL)


def rows_by_table(tables: Iterable[tuple[str, Columns]]) -> dict[str, Rows]:
    """The rows of the tables by table."""
    found: dict[str, Rows] = defaultdict(list)
    for table, columns in tables:
        found[table] += rows_in(columns)
    return found


def _kept(batches: Iterable[pa.RecordBatch], keep: Callable[[pa.RecordBatch], object]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keep(batch)
        yield batch


def _packed(batches: Iterable[pa.RecordBatch], group: Group, config: ReplayConfig) -> Iterator[PackedBatch]:
    """The rows of a simulation, packed, in order by first seq."""
    for batch in batches:
        parts = pack(_with_all_columns(batch), config.profile, config.keys_digested)
        own = (rows_for(group.subscription, part) for part in parts)
        yield from sorted((part for part in own if part is not None), key=lambda part: part.first_seq)


def _with_all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that the replay reads, null where a simulation has none."""
    known = set(batch.schema.names)
    columns = [batch.column(name) if name in known else pa.nulls(batch.num_rows, _type(name)) for name in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def _type(name: str) -> pa.DataType:
    if name == "batch_keys":
        return pa.list_(pa.string())
    return pa.int64() if name in {"sequence_id", "deliver_at_ms"} else pa.string()
