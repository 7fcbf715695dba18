"""Reads a summary from the tables.

In a fresh JVM a query that groups or ranks costs 1.5 to 2 s of CPU time and one that only picks rows a third of that,
because the exchange has to be planned and compiled. So the counts, which are few, are added up here; the worst findings
and the longest waits are picked by order and limit; and tables that have no rows by the counts are not queried.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial, reduce
from operator import or_
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, SEVERITIES
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.summary import (
    CauseTotals,
    Finding,
    GroupCounts,
    HotKey,
    MixedProducer,
    Partition,
    RuleCounts,
    RunSummary,
    Summary,
    Wait,
    total_causes,
    total_rules,
)
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.windows.window import Window

Record = TypeVar("Record", Finding, Wait, Partition, HotKey, MixedProducer)

# Code scanning shows 5,000 results of a run (GitHub, "SARIF support").
_FINDINGS_PER_RULE = min(300, 5_000 // len(RULES))
_WAITS = 5
_HOT_KEYS = 3
_SUBSCRIPTIONS = 5
_PRODUCERS = 5


def summarise(spark: SparkSession, target: str, run_keys: Sequence[str]) -> Summary:
    """Returns the summary of complete runs.

    Args:
        spark: the session.
        target: where the tables are, as `parse_target` reads it.
        run_keys: the runs, in the order of the summary.

    Raises:
        UsageError: a run has no row in `runs`.
    """
    parsed = parse_target(target)
    return Summary(target, _locations(parsed), tuple(_run(spark, parsed, key) for key in run_keys))


def _run(spark: SparkSession, target: Target, run_key: str) -> RunSummary:
    def of_run(table_name: str) -> DataFrame:
        return target.read(spark, table_name).where(sf.col(RUN_KEY) == run_key)

    runs, metrics, blocking = at_one_time(
        lambda query: query.collect(), (of_run("runs"), of_run("metrics"), _by_cause(of_run("blocking")))
    )
    if not runs:
        raise UsageError(f"{target} has no run {run_key}", "audit again")
    run = runs[0]
    groups = sorted(map(_group_counts, metrics), key=lambda group: (group.topic, group.subscription, group.rule))
    rules = total_rules([RuleCounts(group.rule, group.checked, group.findings)] for group in groups)
    by_badness = sorted((counts for counts in rules if any(counts.findings.values())), key=_badness)
    widest = _widest(blocking)
    causes = [CauseTotals(cause, row["intervals"], row["message_seconds"]) for cause, row in widest.items()]

    queries: list[Callable[[], list[Row]]] = [
        partial(_refused, of_run("quarantine"), run["events_quarantined"]),
        partial(_longest_waits, of_run("blocking"), {c: row["scope"] for c, row in widest.items()}, run["to_ts_us"]),
        partial(_incomplete, of_run("coverage")),
        partial(_left_out, of_run("coverage"), causes),
        partial(_hottest, of_run("hot_keys")),
        partial(_mixed, of_run("producers"), _info(rules, "mixed_key_batch")),
        *(partial(_worst_findings, of_run("violations"), counts.rule) for counts in by_badness),
    ]
    refused, waits, incomplete, left_out, hot_keys, mixed, *findings = at_one_time(lambda query: query(), queries)
    return RunSummary(
        run_key=run_key,
        inputs=tuple(run["inputs"]),
        verdict=run["verdict"],
        completeness=run["completeness"],
        events_in=run["events_in"],
        events_quarantined=run["events_quarantined"],
        profile=run["profile"],
        pulsar_version=run["pulsar_version"],
        from_ts_us=run["from_ts_us"],
        to_ts_us=run["to_ts_us"],
        rules=rules,
        findings=tuple(_record(Finding, row) for of_rule in findings for row in of_rule),
        causes=total_causes([causes]),
        waits=tuple(_record(Wait, row) for row in waits),
        refused={row["reason"]: row["count"] for row in refused},
        groups=tuple(groups),
        incomplete=tuple(_record(Partition, row) for row in incomplete),
        hot_keys=tuple(_record(HotKey, row) for row in hot_keys),
        mixed_producers=tuple(_record(MixedProducer, row) for row in mixed),
        starts_from=run["starts_from"],
        window=None if run["starts_from"] is None else Window(run["window_from_us"], run["window_to_us"]),
        events_late=run["events_late"] or 0,
        intervals_left_out=sum(row["intervals_left_out"] for row in left_out),
    )


def _group_counts(row: Row) -> GroupCounts:
    findings = {severity: row[name] for name, severity in COUNT_COLUMNS.items()}
    return GroupCounts(row["topic"], row["subscription"], row["rule"], row["checked"], findings, row["completeness"])


def _badness(counts: RuleCounts) -> tuple[int, str]:
    """A sort key that puts the rule with the worst finding first."""
    return -max(rank for rank, severity in enumerate(SEVERITIES) if counts.findings[severity]), counts.rule


def _worst_findings(violations: DataFrame, rule: str) -> list[Row]:
    rank = sf.array_position(sf.array(*(sf.lit(name) for name in SEVERITIES)), sf.col("severity"))
    worst_first = violations.where(sf.col("rule") == rule).orderBy(rank.desc(), "ts_us", "seq", "topic")
    return worst_first.limit(_FINDINGS_PER_RULE).collect()


def _by_cause(blocking: DataFrame) -> DataFrame:
    return blocking.groupBy("cause", "scope").agg(
        sf.count("*").alias("intervals"), sf.sum("message_seconds").alias("message_seconds")
    )


def _widest(blocking: Sequence[Row]) -> dict[str, Row]:
    """Returns for each cause the row of the scope with the most message-seconds.

    The waiting of a consumer, of its hashes and of a stalled subscription overlap, so the scopes are not added up.
    """
    by_cost = sorted(blocking, key=lambda row: (row["message_seconds"], row["scope"]))
    return {row["cause"]: row for row in by_cost}


def _longest_waits(blocking: DataFrame, scopes: Mapping[str, str], trace_end_us: int | None) -> list[Row]:
    if not scopes:
        return []
    shown = [(sf.col("cause") == cause) & (sf.col("scope") == scope) for cause, scope in scopes.items()]
    blocking = blocking.where(reduce(or_, shown))
    end_us = sf.coalesce("to_ts_us", sf.lit(trace_end_us).cast("bigint"))
    longest_first = blocking.orderBy(sf.col("message_seconds").desc(), "from_ts_us", "sticky_hash")
    return longest_first.limit(_WAITS).withColumn("seconds", (end_us - sf.col("from_ts_us")) / 1e6).collect()


def _incomplete(coverage: DataFrame) -> list[Row]:
    below = coverage.where("completeness < 1")
    return below.orderBy("completeness", "topic", "subscription").limit(_SUBSCRIPTIONS).collect()


def _left_out(coverage: DataFrame, causes: Sequence[CauseTotals]) -> list[Row]:
    # A run that kept no interval left none out.
    return coverage.where("intervals_left_out > 0").select("intervals_left_out").collect() if causes else []


def _hottest(hot_keys: DataFrame) -> list[Row]:
    # A key that is listed only because its hash waited may have no dispatch.
    dispatched = hot_keys.where("dispatched > 0")
    return dispatched.orderBy(sf.col("dispatched").desc(), "topic", "sticky_hash", "key_id").limit(_HOT_KEYS).collect()


def _mixed(producers: DataFrame, number: int) -> list[Row]:
    if not number:
        return []
    most_first = producers.where("mixed_batches > 0").orderBy(sf.col("mixed_batches").desc(), "topic", "producer_name")
    return most_first.limit(_PRODUCERS).collect()


def _info(rules: Sequence[RuleCounts], rule: str) -> int:
    return sum(counts.findings["info"] for counts in rules if counts.rule == rule)


def _refused(quarantine: DataFrame, number: int) -> list[Row]:
    if not number:
        return []
    return quarantine.groupBy("reason").count().orderBy(sf.col("count").desc(), "reason").collect()


def _record(kind: type[Record], row: Row) -> Record:
    """Returns a `kind` with the columns of the same names; arrays become tuples."""
    values = ((field.name, row[field.name]) for field in fields(kind))
    arguments: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values}
    return kind(**arguments)


def _locations(target: Target) -> dict[str, str]:
    separator = "." if target.named else "/"
    return {name: f"{target.location}{separator}{name}" for name in TABLES}
