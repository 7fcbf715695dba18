"""The audit: traces in, tables out. It only orders the work; every step has its home elsewhere.

replay, staged, the rows counted on the way -> survey -> what was refused -> tables -> the row of `runs`, last. No row
is written before the survey has shown that the traces can be audited.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import TraceError
from pipeline.keys import keys_of, with_keys
from pipeline.packing import Packed, configure, packed_by_spark, packed_by_workers
from pipeline.profile import Profile, profile_for, profile_named
from pipeline.replay.basis import Rules
from pipeline.replay.spark import replayed
from pipeline.request import AuditRequest, AuditResult, ValidationResult
from pipeline.settings import Settings
from pipeline.tables.create import open_tables
from pipeline.tables.run_key import code_version, run_key_of
from pipeline.tables.severity import Severity, worst_verdict
from pipeline.tables.target import parse_target
from pipeline.tables.write import RunTables
from pipeline.trace import Survey, Trace, counted, open_traces, quarantined, read_events, survey, trace_errors
from pipeline.trace.counting import NOT_PLAIN, Count, together
from pipeline.trace.parquet_files import Share
from pipeline.trace.spark_errors import worker_died

Progress = Callable[[str], None]

_log = logging.getLogger(__name__)

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
    run_key: str
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
        _log.info("stage", extra={"run_key": self.run_key, **record})


@dataclass(frozen=True)
class _Replayed:
    """A trace that was replayed and can be audited; of its rows in the tables none is written yet."""

    trace: Trace
    profile: Profile
    source: DataFrame | Sequence[Share]
    survey: Survey
    tables: RunTables
    frames: dict[str, DataFrame]
    inputs: list[str]
    stages: _Stages
    started_at_us: int

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
        TraceError: a trace cannot carry a verdict. The tables hold the rows that they held: that one trace is unusable
            is found out before a row of the first is written.
        GaveWayError: another audit of the same question wrote at the same time.
    """
    configure(spark, request.settings)
    traces: list[_Replayed] = []
    try:
        for trace in open_traces(request.paths, request.profile):
            traces.append(_replay(spark, trace, request, progress))
        refused = [_set_aside(spark, found, request.settings) for found in traces]
    except Exception:
        for found in traces:
            found.tables.discard()
        raise
    written: list[str] = []
    to_write = list(zip(traces, refused, strict=True))
    try:
        while to_write:
            written.append(_write(spark, *to_write.pop(0), request.settings))
    except Exception:
        # Not of the one that failed: what it kept tells the next attempt at it that the tables hold a part.
        for found, _ in to_write:
            found.tables.discard()
        raise
    return AuditResult(request.target, tuple(written))


def validate(spark: SparkSession, request: AuditRequest, progress: Progress) -> list[ValidationResult]:
    """Says of every trace what an audit would read of it; the target is not looked at. Raises as `audit` does."""
    configure(spark, request.settings)
    results = []
    for trace in open_traces(request.paths, request.profile):
        profile = _profile(trace, request)
        progress("survey")
        with trace_errors():
            counts = counted(read_events(spark, trace))
        found = survey(spark, counts, trace, request.settings.trace)
        results.append(
            ValidationResult(
                path=trace.path,
                profile=profile.name,
                events_in=found.rows_in,
                events_quarantined=found.refused,
                reasons=dict(found.refused_by_reason),
                usable=True,
            )
        )
    return results


def _profile(trace: Trace, request: AuditRequest) -> Profile:
    if request.profile is None:
        return profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    return profile_named(request.profile)


def _replay(spark: SparkSession, trace: Trace, request: AuditRequest, progress: Progress) -> _Replayed:
    """Reads and replays one trace, once, and judges whether it can carry a verdict."""
    started_at_us, profile, settings = time.time_ns() // 1000, _profile(trace, request), request.settings
    inputs = [_from_here(trace.path)]
    run_key = run_key_of(inputs, profile.name, settings)
    stages = _Stages(progress, run_key)
    with stages.stage("open tables"):
        tables = open_tables(spark, parse_target(request.target), run_key)
    rules = Rules(
        profile=profile,
        version=trace.manifest.pulsar_version,
        broker=profile.broker(trace.manifest.settings),
        skew_us=settings.trace.recorder_skew_us,
        open_entries_max=settings.limits.open_entries_max,
        hot_keys_max=settings.report.hot_keys_max,
        complete_from_start=trace.manifest.complete_from_start,
        patience=settings.patience,
    )
    try:
        with stages.stage("replay") as stage, trace_errors():
            source, frames, counts = _staged(spark, trace, rules, settings, tables)
            stage["rows"] = sum(count.rows for count in counts)
        found = survey(spark, counts, trace, settings.trace)
    except Exception:
        tables.discard()
        raise
    return _Replayed(trace, profile, source, found, tables, frames, inputs, stages, started_at_us)


def _staged(
    spark: SparkSession, trace: Trace, rules: Rules, settings: Settings, tables: RunTables
) -> tuple[DataFrame | Sequence[Share], dict[str, DataFrame], list[Count]]:
    """What was read, what the replay returned, by table, and how many rows there were.

    Spark reads only what its workers cannot.
    """
    packed = packed_by_workers(spark, trace, rules.profile, settings)
    if packed is not None:
        try:
            frames, counts = _run(packed, rules, settings, tables)
            if all(count.refused != NOT_PLAIN for count in counts):
                return packed.source, frames, counts
        except Exception as error:
            # Spark's own reader lives through a damaged file, and says what is wrong with it.
            if not worker_died(error):
                raise
    packed = packed_by_spark(spark, trace, rules.profile, settings)
    return packed.source, *_run(packed, rules, settings, tables)


def _run(
    packed: Packed, rules: Rules, settings: Settings, tables: RunTables
) -> tuple[dict[str, DataFrame], list[Count]]:
    keep = settings.report.findings_per_rule_max
    frames = tables.stage(replayed(packed.chunks, packed.groups, rules, keep, packed.tasks))
    # Of files without a byte there are no rows, and not even a count of them.
    counted_rows = frames.pop("counted").collect() if "counted" in frames else []
    return frames, together(row.asDict() for row in counted_rows)


def _set_aside(spark: SparkSession, found: _Replayed, settings: Settings) -> int:
    """Adds the rows of `quarantine` and returns their number; too many make the trace unusable."""
    refused_late = found.frames.pop("refused", None)
    if not found.survey.refused and refused_late is None:
        return 0
    with found.stages.stage("quarantine") as stage:
        found.frames["quarantine"] = quarantined(
            spark, found.trace, cut_off=found.survey.cut_off, refused_late=refused_late
        ).select("reason", "file", "line", "raw", "detail")
        refused: int = found.frames["quarantine"].count()
        stage["rows"] = refused
    if refused > settings.trace.quarantine_ratio_max * found.survey.rows_in:
        raise _too_much_refused(found, refused, settings.trace.quarantine_ratio_max)
    return refused


def _write(spark: SparkSession, found: _Replayed, refused: int, settings: Settings) -> str:
    """Writes the tables of one trace, of which so many rows were refused; returns its run key."""
    tables, frames, stages = found.tables, found.frames, found.stages
    keyed = [table for table in ("violations", "hot_keys") if table in frames]
    if keyed:
        with stages.stage("look up keys"):
            keys = keys_of([frames[table] for table in keyed], found.source, spark)
            frames.update({table: with_keys(frames[table], keys) for table in keyed})
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
            "inputs": found.inputs,
            "settings": settings.model_dump_json(),
            "code_version": code_version(),
            "from_ts_us": found.bounds_us()[0],
            "to_ts_us": found.bounds_us()[1],
            "started_at_us": found.started_at_us,
            "ended_at_us": time.time_ns() // 1000,
            "stages": stages.done,
        }
    )
    return tables.run_key


def _from_here(path: str) -> str:
    """A path as people here write it, so that a checkout elsewhere asks the same question of its samples."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _too_much_refused(found: _Replayed, refused: int, ratio_max: float) -> TraceError:
    return TraceError(
        f"{found.trace.path}: {refused} of {found.survey.rows_in} rows do not fit the rows before them, more than "
        f"the share of {ratio_max:g} that is allowed",
        "record from the first join on, or raise trace.quarantine_ratio_max",
    )


def _found(metrics: DataFrame | None) -> list[Severity]:
    """Which severities there is anything of."""
    if metrics is None:
        return []
    totals = _totals(metrics, *_WEIGHTS)
    return [severity for total, severity in zip(totals, _WEIGHTS.values(), strict=True) if total]


def _completeness(partitions: DataFrame | None, survey: Survey) -> float:
    """The share of the trace that could carry a verdict; each partition weighs as much as it has rows."""
    readable = (survey.rows_in - survey.refused) / survey.rows_in
    if partitions is None:
        return readable
    judged, rows = _totals(partitions, "rows_judged", "rows")
    return readable * judged / rows


def _totals(rows: DataFrame, *columns: str) -> list[int]:
    """Sums of columns. Of few rows, added up here: an exchange would cost more."""
    table = rows.select(*columns).toArrow()
    return [pc.sum(table[name]).as_py() or 0 for name in columns]
