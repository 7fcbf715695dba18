"""Reads a summary out of the tables: one small query a table, all at one time."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from pipeline.errors import UsageError
from pipeline.report.summary import CauseTotals, Finding, RuleCounts, RunSummary, Summary, Wait
from pipeline.tables.schemas import TABLES
from pipeline.tables.severity import SEVERITIES, Severity
from pipeline.tables.table_schema import RUN_KEY
from pipeline.tables.target import Target, parse_target
from pipeline.tables.threads import at_one_time

Record = TypeVar("Record", Finding, Wait)

# The findings of one rule are often the consequences of the first few.
_FINDINGS_PER_RULE = 5
_WAITS = 5

_METRIC_OF: dict[Severity, str] = {
    "violation": "violations",
    "known_bug": "known_bug",
    "not_provable": "not_provable",
    "permitted": "permitted",
    "info": "info",
}


def summarise(spark: SparkSession, target: str, run_keys: Sequence[str]) -> Summary:
    """The summary of runs that have happened.

    Args:
        spark: the session.
        target: where the tables are, as `parse_target` reads it.
        run_keys: the runs, in the order wanted.

    Raises:
        UsageError: a run has no row in `runs`.
    """
    place = parse_target(target)

    def of_runs(table_name: str) -> DataFrame:
        return place.read(spark, table_name).where(sf.col(RUN_KEY).isin(list(run_keys)))

    queries = [
        of_runs("runs"),
        _counts(of_runs("metrics")),
        _worst_findings(of_runs("violations")),
        _causes(of_runs("blocking")),
        _longest_waits(of_runs("blocking"), of_runs("runs")),
        of_runs("quarantine").groupBy(RUN_KEY, "reason").count(),
    ]
    runs, *others = at_one_time(lambda query: query.collect(), queries)
    found = {row[RUN_KEY]: row for row in runs}
    missing = [key for key in run_keys if key not in found]
    if missing:
        raise UsageError(f"{target} holds no run {', '.join(missing)}", "audit again")
    return Summary(target, _locations(place), tuple(_run(found[key], *others) for key in run_keys))


def _counts(metrics: DataFrame) -> DataFrame:
    return metrics.groupBy(RUN_KEY, "rule").agg(
        *(sf.sum(name).alias(name) for name in ("checked", *_METRIC_OF.values()))
    )


def _worst_findings(violations: DataFrame) -> DataFrame:
    worst_first = (_rank("severity").desc(), sf.col("ts_us"), sf.col("seq"), sf.col("topic"))
    place = sf.row_number().over(Window.partitionBy(RUN_KEY, "rule").orderBy(*worst_first))
    return violations.withColumn("place", place).where(sf.col("place") <= _FINDINGS_PER_RULE)


def _rank(severity: str) -> Column:
    return sf.array_position(sf.array(*(sf.lit(name) for name in SEVERITIES)), sf.col(severity))


def _causes(blocking: DataFrame) -> DataFrame:
    return blocking.groupBy(RUN_KEY, "cause").agg(
        sf.count("*").alias("intervals"), sf.sum("message_seconds").alias("message_seconds")
    )


def _longest_waits(blocking: DataFrame, runs: DataFrame) -> DataFrame:
    longest_first = (sf.col("message_seconds").desc(), sf.col("from_ts_us"), sf.col("sticky_hash"))
    place = sf.row_number().over(Window.partitionBy(RUN_KEY).orderBy(*longest_first))
    longest = blocking.withColumn("place", place).where(sf.col("place") <= _WAITS)
    ends = runs.select(RUN_KEY, sf.col("to_ts_us").alias("trace_end_us"))
    end_us = sf.coalesce("to_ts_us", "trace_end_us")
    return longest.join(ends, RUN_KEY).withColumn("seconds", (end_us - sf.col("from_ts_us")) / 1e6)


def _run(
    run: Row, counts: list[Row], findings: list[Row], causes: list[Row], waits: list[Row], refused: list[Row]
) -> RunSummary:
    def own(rows: Iterable[Row]) -> list[dict[str, Any]]:
        return [row.asDict() for row in rows if row[RUN_KEY] == run[RUN_KEY]]

    own_findings = own(findings)
    worst_of = {row["rule"]: SEVERITIES.index(row["severity"]) for row in own_findings if row["place"] == 1}
    by_badness = sorted(own_findings, key=lambda row: (-worst_of[row["rule"]], row["rule"], row["place"]))
    return RunSummary(
        run_key=run[RUN_KEY],
        inputs=tuple(run["inputs"]),
        verdict=run["verdict"],
        completeness=run["completeness"],
        events_in=run["events_in"],
        events_quarantined=run["events_quarantined"],
        profile=run["profile"],
        pulsar_version=run["pulsar_version"],
        from_ts_us=run["from_ts_us"],
        to_ts_us=run["to_ts_us"],
        rules=tuple(_rule_counts(row) for row in sorted(own(counts), key=lambda row: row["rule"])),
        findings=tuple(_record(Finding, row) for row in by_badness),
        causes=tuple(
            CauseTotals(row["cause"], row["intervals"], row["message_seconds"])
            for row in sorted(own(causes), key=lambda row: (-row["message_seconds"], row["cause"]))
        ),
        waits=tuple(_record(Wait, row) for row in sorted(own(waits), key=lambda row: row["place"])),
        refused={
            row["reason"]: row["count"] for row in sorted(own(refused), key=lambda row: (-row["count"], row["reason"]))
        },
    )


def _rule_counts(row: dict[str, Any]) -> RuleCounts:
    return RuleCounts(row["rule"], row["checked"], {severity: row[name] for severity, name in _METRIC_OF.items()})


def _record(kind: type[Record], row: dict[str, Any]) -> Record:
    """The fields of `kind` out of the columns of the same names; arrays become tuples."""
    values = ((field.name, row[field.name]) for field in fields(kind))
    arguments: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in values}
    return kind(**arguments)


def _locations(place: Target) -> dict[str, str]:
    separator = "." if place.named else "/"
    return {name: f"{place.location}{separator}{name}" for name in TABLES}
