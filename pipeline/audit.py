"""The audit: traces in, tables out. It only orders the work; every step has its home elsewhere.

survey -> replay, staged -> what was refused -> tables -> the row of `runs`, last. Nothing is written before the
survey has shown that the trace can be audited.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import TraceError
from pipeline.profile import Profile, profile_for, profile_named
from pipeline.replay.basis import Rules
from pipeline.replay.group import Group
from pipeline.replay.spark import replayed
from pipeline.request import AuditRequest, AuditResult, ValidationResult
from pipeline.tables.create import open_tables
from pipeline.tables.run_key import code_version, run_key_of
from pipeline.tables.severity import Severity, worst_verdict
from pipeline.tables.target import parse_target
from pipeline.trace import Survey, Trace, open_traces, quarantined, read_events, survey, trace_errors

Progress = Callable[[str], None]

# Counts of `metrics`, and what each weighs.
_WEIGHTS: Mapping[str, Severity] = {
    "violations": "violation",
    "known_bug": "known_bug",
    "not_provable": "not_provable",
    "permitted": "permitted",
    "info": "info",
}


@dataclass
class _Stages:
    """What was done, how long it took and how many rows came of it; the caller is told as it happens."""

    progress: Progress
    done: list[dict[str, object]] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, object]]:
        """Times what happens inside; the body may put `rows` into what it is given."""
        self.progress(name)
        record: dict[str, object] = {"stage": name, "seconds": 0.0, "rows": None}
        start = time.monotonic()
        yield record
        record["seconds"] = time.monotonic() - start
        self.done.append(record)


@dataclass(frozen=True)
class _Surveyed:
    """A trace that can be audited."""

    trace: Trace
    profile: Profile
    events: DataFrame
    survey: Survey
    stages: _Stages
    started_at_us: int

    @property
    def groups(self) -> list[Group]:
        """The subscriptions of the trace; a publish names none, it belongs to all of its topic."""
        named = ((g.topic, g.subscription) for g in self.survey.groups)
        return [Group(topic, name) for topic, name in named if topic is not None and name is not None]

    def bounds_us(self) -> tuple[int | None, int | None]:
        """First and last time in the trace."""
        first = [g.first_ts_us for g in self.survey.groups if g.first_ts_us is not None]
        last = [g.last_ts_us for g in self.survey.groups if g.last_ts_us is not None]
        return min(first, default=None), max(last, default=None)


def audit(spark: SparkSession, request: AuditRequest, progress: Progress) -> AuditResult:
    """Audits every trace of a request, each under its own profile, into the tables of the target.

    Args:
        spark: the session.
        request: what to audit, and where to.
        progress: told the name of each stage as it begins.

    Raises:
        UsageError: a path, the profile or the target makes no sense.
        TraceError: a trace cannot carry a verdict. Its tables are as they were; that one trace is unusable is found
            out before the first is audited.
    """
    surveyed = _survey_all(spark, request, progress)
    return AuditResult(request.target, tuple(_audit_one(spark, request, trace) for trace in surveyed))


def validate(spark: SparkSession, request: AuditRequest, progress: Progress) -> list[ValidationResult]:
    """Says of every trace what an audit would read of it; the target is not looked at. Raises as `audit` does."""
    return [
        ValidationResult(
            path=found.trace.path,
            profile=found.profile.name,
            events_in=found.survey.rows_in,
            events_quarantined=found.survey.refused,
            reasons=dict(found.survey.refused_by_reason),
            usable=True,
        )
        for found in _survey_all(spark, request, progress)
    ]


def _survey_all(spark: SparkSession, request: AuditRequest, progress: Progress) -> list[_Surveyed]:
    # A chunk is an Arrow batch: large ones keep the exchange small.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(request.settings.spark.chunk_rows))
    # The number of rows limits a batch; its bytes, where they are limited too, are counted anew after every row, which
    # takes time in proportion to the square of the batch where columns are nested.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    return [_survey(spark, trace, request, _Stages(progress)) for trace in open_traces(request.paths, request.profile)]


def _survey(spark: SparkSession, trace: Trace, request: AuditRequest, stages: _Stages) -> _Surveyed:
    manifest = trace.manifest
    started_at_us = time.time_ns() // 1000
    if request.profile is None:
        profile = profile_for(manifest.pulsar_version, manifest.settings)
    else:
        profile = profile_named(request.profile)
    with stages.stage("survey") as stage:
        events = read_events(spark, trace)
        found = survey(events, trace, request.settings.trace)
        stage["rows"] = found.rows_in
    return _Surveyed(trace, profile, events, found, stages, started_at_us)


def _audit_one(spark: SparkSession, request: AuditRequest, found: _Surveyed) -> str:
    """Audits one trace; returns its run key."""
    inputs, settings, stages = [_from_here(found.trace.path)], request.settings, found.stages
    run_key = run_key_of(inputs, found.profile.name, settings)
    with stages.stage("open tables"):
        tables = open_tables(spark, parse_target(request.target), run_key)
    with stages.stage("replay"), trace_errors():
        rules = Rules(
            profile=found.profile,
            version=found.trace.manifest.pulsar_version,
            broker=found.profile.broker(found.trace.manifest.settings),
            skew_us=settings.trace.recorder_skew_us,
            open_entries_max=settings.limits.open_entries_max,
            hot_keys_max=settings.report.hot_keys_max,
            complete_from_start=found.trace.manifest.complete_from_start,
            patience=settings.patience,
        )
        tasks = _replay_tasks(spark, settings.spark.replay_tasks, len(found.groups))
        results = replayed(found.events, found.groups, rules, settings.report.findings_per_rule_max, tasks)
        frames = tables.stage(results)
    refused_late = frames.pop("refused", None)
    refused = 0
    if found.survey.refused or refused_late is not None:
        with stages.stage("quarantine") as stage:
            frames["quarantine"] = quarantined(
                spark, found.trace, cut_off=found.survey.cut_off, refused_late=refused_late
            ).select("reason", "file", "line", "raw", "detail")
            refused = frames["quarantine"].count()
            stage["rows"] = refused
        if refused > settings.trace.quarantine_ratio_max * found.survey.rows_in:
            tables.discard()
            raise _too_much_refused(found, refused, settings.trace.quarantine_ratio_max)
    for table in ("violations", "hot_keys"):
        if table in frames:
            frames[table] = _with_keys(frames[table], found.events)
    with stages.stage("write tables"):
        tables.write(frames)
    rows_in = found.survey.rows_in
    completeness = _completeness(frames.get("partitions"), found.survey)
    severities = _found(frames.get("metrics"))
    if completeness == 0:
        severities.append("not_provable")  # a verdict is never better than the trace
    tables.finish(
        {
            "verdict": worst_verdict(severities),
            "completeness": completeness,
            "events_in": rows_in,
            "events_audited": rows_in - refused,
            "events_quarantined": refused,
            "profile": found.profile.name,
            "pulsar_version": found.trace.manifest.pulsar_version,
            "inputs": inputs,
            "settings": settings.model_dump_json(),
            "code_version": code_version(),
            "from_ts_us": found.bounds_us()[0],
            "to_ts_us": found.bounds_us()[1],
            "started_at_us": found.started_at_us,
            "ended_at_us": time.time_ns() // 1000,
            "stages": stages.done,
        }
    )
    return run_key


def _from_here(path: str) -> str:
    """A path as people here write it, so that a checkout elsewhere asks the same question of its samples."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _replay_tasks(spark: SparkSession, wanted: int | Literal["auto"], groups: int) -> int:
    if wanted != "auto":
        return wanted
    # A group is never divided, so more tasks than groups would have nothing to do.
    return max(1, min(groups, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))


def _too_much_refused(found: _Surveyed, refused: int, ratio_max: float) -> TraceError:
    return TraceError(
        f"{found.trace.path}: {refused} of {found.survey.rows_in} rows do not fit the rows before them, more than "
        f"the share of {ratio_max:g} that is allowed",
        "record from the first join on, or raise trace.quarantine_ratio_max",
    )


def _found(metrics: DataFrame | None) -> list[Severity]:
    """Which severities there is anything of."""
    if metrics is None:
        return []
    totals = metrics.agg(*(sf.sum(name).alias(name) for name in _WEIGHTS)).collect()[0]
    return [severity for name, severity in _WEIGHTS.items() if totals[name]]


def _completeness(partitions: DataFrame | None, survey: Survey) -> float:
    """The share of the trace that could carry a verdict; each partition weighs as much as it has rows."""
    readable = (survey.rows_in - survey.refused) / survey.rows_in
    if partitions is None:
        return readable
    judged, rows = partitions.agg(sf.sum("rows_judged"), sf.sum("rows")).collect()[0]
    return float(readable * judged / rows)


def _with_keys(rows: DataFrame, events: DataFrame) -> DataFrame:
    """The key of each row's entry, looked up in the trace: keys do not travel with the replay."""
    wanted = rows.select("topic", "ledger_id", "entry_id").distinct()
    named = events.where("refused IS NULL AND key IS NOT NULL AND event IN ('publish', 'dispatch')")
    keys = (
        named.join(sf.broadcast(wanted), ["topic", "ledger_id", "entry_id"], "left_semi")
        .groupBy("topic", "ledger_id", "entry_id")
        .agg(_as_text(sf.any_value("key")).alias("key"))
    )
    return rows.drop("key").join(sf.broadcast(keys), ["topic", "ledger_id", "entry_id"], "left")


def _as_text(key: Column) -> Column:
    text = key.cast("string")
    return sf.when(sf.is_valid_utf8(text), text).otherwise(sf.base64(key))
