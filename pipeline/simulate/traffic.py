"""What is simulated: the partitions of a described workload, or the subscriptions of a recorded trace."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.contract.recorded_by import BROKER, OUTSIDE
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.explain.trace_rows import all_rows, of_group
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.simulate.setting_names import refuse_settings
from dispatch_audit.pipeline.simulate.work import DescribedPartition, RecordedSubscription, Work
from dispatch_audit.pipeline.simulate.workload.description import WorkloadDescription, read_description
from dispatch_audit.pipeline.simulate.workload.from_trace import not_simulated
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.chosen_rows import ALL_ROWS, ChosenRows
from dispatch_audit.pipeline.trace.side_by_side import put_together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source: TypeAlias = WorkloadDescription | Trace

_DESCRIBED: Final = ".toml"


@dataclass(frozen=True)
class Traffic:
    """Partitions to simulate.

    Attributes:
        work: the partitions, at least one.
        left_out: a sentence for each subscription that cannot be simulated.
    """

    work: tuple[Work, ...]
    left_out: tuple[str, ...] = ()


def opened(source: str) -> Source:
    """The description of a workload, if the source is a file that ends in `.toml`, else a trace.

    Raises:
        UsageError: it cannot be read, has a setting that does not exist, is several traces, or is a trace that shows no
            dispatcher, no keys, or only some of the hashes.
        TraceError: `trace.json` cannot be used.
    """
    if source.endswith(_DESCRIBED):
        description = read_description(Path(source))
        refuse_settings(description.broker.settings, f"{source}: broker.settings: ")
        return description
    traces = put_together(open_traces([source]))
    if len(traces) != 1:
        raise UsageError(f"{source} has {len(traces)} traces", "name one of them")
    (trace,) = traces
    if trace.manifest.recorded_by != BROKER:
        where = OUTSIDE[trace.manifest.recorded_by].described
        raise UsageError(f"{source} was {where}: no traffic can be taken from it", "simulate a trace of the broker")
    if trace.manifest.keys_digested:
        raise UsageError(f"{source} has digests for keys, which have other hashes", "record it with plain keys")
    if not trace.manifest.hashes.is_all:
        share = trace.manifest.hashes.share
        raise UsageError(f"{source} has {share} of the hashes, which is another load", "record all of them")
    return trace


def broker_of(source: Source) -> tuple[str, Mapping[str, object]]:
    """The version of the broker, and the settings of broker.conf that differ from its defaults."""
    if isinstance(source, WorkloadDescription):
        return source.broker.version, source.broker.settings
    return source.manifest.pulsar_version, source.manifest.settings


def traffic_of(
    source: Source,
    spark: "SparkSession",
    most: int | None = None,
    *,
    once_a_topic: bool = False,
    chosen: ChosenRows = ALL_ROWS,
) -> Traffic:
    """The partitions of a workload or the subscriptions of a trace.

    Args:
        source: of `opened`.
        spark: the session, for traces that only it can read.
        most: only so many of them, the first ones by name; None: all.
        once_a_topic: only one subscription of each topic partition of a trace.
        chosen: the topics and subscriptions of a trace that are taken.

    Raises:
        UsageError: nothing of a trace can be simulated.
        TraceError: a file of the trace cannot be read.
    """
    if isinstance(source, WorkloadDescription):
        if not chosen.are_all:
            raise UsageError("a described workload has one topic", "leave --topic and --subscription out")
        numbers = range(source.topic.partitions)[:most]
        work = tuple(DescribedPartition(source, number) for number in numbers)
        return Traffic(work)
    return _recorded(source, chosen.among(all_rows(source, spark)), most, once_a_topic)


def _recorded(trace: Trace, rows: pa.Table, most: int | None, once_a_topic: bool) -> Traffic:
    named = rows.filter(pc.is_valid(rows["subscription"])).group_by(["topic", "subscription"]).aggregate([])
    groups = sorted(Group(row["topic"], row["subscription"]) for row in named.to_pylist() if row["topic"])
    work: list[Work] = []
    left_out: list[str] = []
    topics: set[str] = set()
    for group in groups:
        own = of_group(rows, group)
        reason = not_simulated(own)
        if reason is None and once_a_topic and group.topic in topics:
            reason = "a simulated trace holds one subscription of a topic, and it has another one"
        if reason is not None:
            left_out.append(f"{group.topic}, subscription {group.subscription}, is left out: {reason}")
            continue
        topics.add(group.topic)
        work.append(RecordedSubscription(group, own))
    if not work:
        why = "; ".join(left_out) or "no row names a subscription, or one that is asked for"
        raise UsageError(f"{trace.path} has nothing to simulate: {why}", "name another trace")
    return Traffic(tuple(work[:most]), tuple(left_out))
