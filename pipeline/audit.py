"""The audit: traces in, tables out. It only orders the work; every step has its home elsewhere.

replay, staged, the rows counted on the way -> survey -> what was refused -> tables -> the row of `runs`, last. No row
is written before the survey has shown that the traces can be audited.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.bad_rows import SetAside
from pipeline.contract.severity import worst_verdict
from pipeline.errors import TraceError
from pipeline.replay.packed_source import NOTHING, Packed, Reading, configure
from pipeline.replay.packing.refused import DUPLICATE_SEQ, REPEATED_ROW
from pipeline.replay.replay_on_spark import replayed
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.run.audit_task import AuditTask, audit_tasks
from pipeline.run.key_lookup import keys_of, with_keys
from pipeline.run.replay_config import replay_config
from pipeline.run.request import AuditRequest, AuditResult
from pipeline.run.run_key import code_version
from pipeline.run.stages import Progress, Stages
from pipeline.run.verdict import completeness_of, severities_in
from pipeline.settings import Settings
from pipeline.spark_errors import worker_died
from pipeline.tables.create import open_tables
from pipeline.tables.threads import both
from pipeline.tables.write import RunTables
from pipeline.trace import Survey, Trace, quarantined, read_events, survey, trace_errors
from pipeline.trace.parquet.worker_reader import Share
from pipeline.trace.quarantine.row_counts import NOT_PLAIN, Count, together
from pipeline.windows.resolve import ResolvedWindow, resolved_window
from pipeline.windows.rows_without_seq import RowsWithoutSeq, rows_without_seq
from pipeline.windows.window import WHOLE


@dataclass(frozen=True)
class _Replayed:
    """A trace that was replayed and can be audited; of its rows in the tables none is written yet."""

    question: AuditTask
    span: ResolvedWindow | None
    trace: Trace
    source: DataFrame | Sequence[Share]
    survey: Survey
    leftovers: RowsWithoutSeq
    tables: RunTables
    frames: dict[str, DataFrame]
    stages: Stages
    started_at_us: int

    @property
    def rows_in(self) -> int:
        """Rows read."""
        return self.survey.rows_in + self.leftovers.number

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
        UsageError: a path, the profile or the target makes no sense, no window holds the moment from which on to audit
            once more, or a window starts from the state of another version.
        TraceError: a trace cannot carry a verdict. The tables hold the rows that they held: that one trace is unusable
            is found out before a row of the first is written; windows that are audited once more follow each other,
            and those before the unusable one are written.
        GaveWayError: another audit of the same question wrote at the same time.
    """
    configure(spark, request.settings)
    asked = audit_tasks(request)
    if request.reaudit_us is not None:
        return _audited_again(spark, asked, request, progress)
    planned = [one if request.window == WHOLE else one.continued(spark, request.window) for one in asked]
    run_keys = _answers(spark, planned, request, progress)
    return AuditResult(request.target, tuple(run_keys), tuple(one.trace for one in planned))


def _audited_again(
    spark: SparkSession, asked: Sequence[AuditTask], request: AuditRequest, progress: Progress
) -> AuditResult:
    """Audits windows once more, each from the state that the one before has just left."""
    # Asked about every trace before the first is audited: a moment that one of them does not know is a wrong call.
    again = [(one, window) for one in asked for window in one.windows_since(spark, request.reaudit_us or 0)]
    run_keys: list[str] = []
    for question, window in again:
        run_keys += _answers(spark, [question.within(spark, window)], request, progress)
    return AuditResult(request.target, tuple(run_keys), tuple(question.trace for question, _ in again))


def _answers(
    spark: SparkSession, questions: Sequence[AuditTask], request: AuditRequest, progress: Progress
) -> list[str]:
    """Replays all, then writes all; returns the run keys."""
    traces: list[_Replayed] = []
    try:
        for question in questions:
            traces.append(_replay(spark, question, request, Stages(progress, question.run_key)))
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
    return written


def _replay(spark: SparkSession, question: AuditTask, request: AuditRequest, stages: Stages) -> _Replayed:
    """Reads and replays one trace, once, and judges whether it can carry a verdict."""
    started_at_us, profile, settings = time.time_ns() // 1000, question.profile, request.settings
    target, plan, trace = question.target, question.plan, question.trace
    span = None
    if plan is not None:
        with stages.stage("find the window"):
            span = resolved_window(spark, trace, plan, target)
        trace = span.trace
    complete = trace.manifest.complete_from_start and (span is None or span.plan.complete_from_start)
    config = replay_config(trace.manifest, profile, settings, complete)
    reading = Reading(spark, trace, profile, settings, NOTHING if span is None else span.carried)
    with stages.stage("open"):
        # Both are a few statements each, which take their time one by one and leave cores idle.
        tables, packed = both(lambda: open_tables(spark, target, question.run_key), reading.packed)
    try:
        with stages.stage("replay") as stage, trace_errors():
            keep_state = span is not None and span.next_seq is not None
            source, frames, counts = _staged(reading, packed, config, tables, keep_state)
            stage["rows"] = sum(count.rows for count in counts)
        found = survey(spark, counts, trace, settings.trace)
        leftovers = RowsWithoutSeq(None, 0) if span is None else rows_without_seq(spark, span, target, settings.trace)
        if span is not None:
            span.refuse_nothing(found.rows_in)
    except Exception:
        tables.discard()
        raise
    return _Replayed(question, span, trace, source, found, leftovers, tables, frames, stages, started_at_us)


def _staged(
    reading: Reading, packed: Packed, config: ReplayConfig, tables: RunTables, keep_state: bool
) -> tuple[DataFrame | Sequence[Share], dict[str, DataFrame], list[Count]]:
    """What was read, what the replay returned, by table, and how many rows there were."""
    try:
        frames, counts = _run(packed, config, reading.settings, tables, keep_state)
        if all(count.refused != NOT_PLAIN for count in counts):
            return packed.source, frames, counts
    except Exception as error:
        # Spark's own reader lives through a damaged file, and says what is wrong with it.
        if isinstance(packed.source, DataFrame) or not worker_died(error):
            raise
    packed = reading.packed_by_spark()
    return packed.source, *_run(packed, config, reading.settings, tables, keep_state)


def _run(
    packed: Packed, config: ReplayConfig, settings: Settings, tables: RunTables, keep_state: bool
) -> tuple[dict[str, DataFrame], list[Count]]:
    keep = settings.report.findings_per_rule_max
    frames = tables.stage(
        replayed(
            packed.chunks,
            packed.groups,
            config,
            keep,
            packed.tasks,
            keep_state=keep_state,
            recorders=packed.recorders,
        ),
    )
    # Of files without a byte there are no rows, and not even a count of them.
    counted_rows = frames.pop("counted").collect() if "counted" in frames else []
    return frames, together(row.asDict() for row in counted_rows)


def _set_aside(spark: SparkSession, found: _Replayed, settings: Settings) -> int:
    """Adds the rows of `quarantine` and returns their number; too many bad ones make the trace unusable."""
    refused_late = found.frames.pop("refused", None)
    leftovers = found.leftovers
    if not found.survey.refused and refused_late is None and leftovers.rows is None:
        return 0
    first = found.trace.seqs.first
    if refused_late is not None and first is not None:
        # A subscription that comes up is given what was published before it; the windows of then told of these.
        told = sf.col("reason").isin(REPEATED_ROW, DUPLICATE_SEQ) & (sf.col("seq") < first)
        refused_late = refused_late.where(~told)
    with found.stages.stage("quarantine") as stage:
        rows = quarantined(spark, found.trace, cut_off=found.survey.cut_off, refused_late=refused_late)
        found.frames["quarantine"] = rows.select("reason", "file", "line", "raw", "detail")
        refused = _counted(found)
        if leftovers.rows is not None:
            found.frames["quarantine"] = found.frames["quarantine"].unionByName(leftovers.rows)
        stage["rows"] = refused.rows + leftovers.number
    # Of the rows of a window some may be refused only in the next.
    before = 0 if found.span is None else found.span.rows_before
    if refused.bad_share(found.survey.rows_in + before) > settings.trace.quarantine_ratio_max:
        raise _too_much_refused(found, refused, settings.trace.quarantine_ratio_max)
    return refused.rows + leftovers.number


def _counted(found: _Replayed) -> SetAside:
    """How many rows of `quarantine` there are."""
    counts = {row["reason"]: row["count"] for row in found.frames["quarantine"].groupBy("reason").count().collect()}
    repeated, early = counts.pop(REPEATED_ROW, 0), found.survey.refused
    return SetAside(early, sum(counts.values()) - early, repeated)


def _write(spark: SparkSession, found: _Replayed, refused: int, settings: Settings) -> str:
    """Writes the tables of one trace, of which so many rows were refused; returns its run key."""
    tables, frames, stages = found.tables, found.frames, found.stages
    keyed = [table for table in ("violations", "hot_keys") if table in frames]
    if keyed:
        with stages.stage("look up keys"):
            # What is open at the end of a window may have been published long before it.
            before = None if found.span is None else found.span.carried.earlier
            earlier = None if before is None else read_events(spark, before)
            keys = keys_of([frames[table] for table in keyed], found.source, spark, earlier)
            frames.update({table: with_keys(frames[table], keys) for table in keyed})
    with stages.stage("write tables"):
        tables.write(frames)
    refused_early = found.survey.refused + found.leftovers.number
    completeness = completeness_of(frames.get("coverage"), found.rows_in, refused_early)
    severities = severities_in(frames.get("metrics"))
    if completeness == 0:
        severities.append("not_provable")  # a verdict is never better than the trace
    tables.finish(
        {
            "verdict": worst_verdict(severities),
            "completeness": completeness,
            "events_in": found.rows_in,
            "events_audited": found.rows_in - refused,
            "events_quarantined": refused,
            "profile": found.question.profile.name,
            "pulsar_version": found.trace.manifest.pulsar_version,
            "inputs": found.question.inputs,
            "settings": settings.model_dump_json(),
            "code_version": code_version(),
            "from_ts_us": found.bounds_us()[0],
            "to_ts_us": found.bounds_us()[1],
            **({} if found.span is None else found.span.columns(found.leftovers.number)),
            "started_at_us": found.started_at_us,
            "ended_at_us": time.time_ns() // 1000,
            "stages": stages.done,
        }
    )
    return tables.run_key


def _too_much_refused(found: _Replayed, refused: SetAside, ratio_max: float) -> TraceError:
    return TraceError(
        f"{found.trace.path}: {refused.early + refused.late} of {found.survey.rows_in} rows do not fit the rows before "
        f"them, more than the share of {ratio_max:g} that is allowed",
        "record from the first join on, or raise trace.quarantine_ratio_max",
    )
