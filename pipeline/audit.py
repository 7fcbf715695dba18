"""Audits traces into tables. This module only orders the steps; other modules do them.

The trace is read once: its rows are checked, counted, packed and staged. If the survey of the counts shows that the
trace can be audited, the replay follows, then the quarantine, the tables, and last the row of `runs`. No row is written
before all traces have been replayed.
"""

import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.contract.severity import worst_verdict
from dispatch_audit.pipeline.engine.limits import refuse_target
from dispatch_audit.pipeline.engine.name import engine_name
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plan.packed_source import NOTHING, Reading, configure, counts_in
from dispatch_audit.pipeline.plan.replay_on_spark import replayed
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.run.accepted import matched_in, with_accepted
from dispatch_audit.pipeline.run.audit_task import AuditTask, audit_tasks
from dispatch_audit.pipeline.run.baseline import AcceptedFinding
from dispatch_audit.pipeline.run.key_lookup import keys_of, with_keys
from dispatch_audit.pipeline.run.outside_limits import refuse_several_recorders, refuse_window
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.run.replayed_trace import ReplayedTrace
from dispatch_audit.pipeline.run.request import AuditRequest, AuditResult
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.run.stages import Progress, Stages, of_several
from dispatch_audit.pipeline.run.verdict import answers_in, completeness_of, severities_in
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace import Trace, UnusableTrace, survey, trace_errors
from dispatch_audit.pipeline.trace.chosen_rows import sample_of
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.windows.resolve import resolved_window
from dispatch_audit.pipeline.windows.rows_without_seq import RowsWithoutSeq, rows_without_seq
from dispatch_audit.pipeline.windows.window import WHOLE, Window


class _Audited(NamedTuple):
    """A trace whose rows are in the tables; the fields are those of `AuditResult`, for one run."""

    run_key: str
    trace: Trace
    stale: tuple[AcceptedFinding, ...]


def audit(spark: SparkSession, request: AuditRequest, progress: Progress) -> AuditResult:
    """Audits every trace of a request under its own profile; writes the tables of the target and returns the runs.

    Args:
        spark: the session.
        request: the traces, the target and the settings.
        progress: called with the name of each stage as it begins.

    Raises:
        UsageError: a path, the profile or the target is wrong, no audited window holds the moment to audit again from,
            or a window starts from the state of another version. The tables are unchanged, because every trace is
            checked before a row of the first is written; but windows are audited again one after the other.
        TraceError: no trace can carry a verdict; the tables are unchanged. If another can, the result has the error.
        GaveWayError: another audit of the same traces and settings wrote at the same time.
    """
    if parse_target(request.target).place is None:
        refuse_target(spark, request.target)
    configure(spark, request.settings)
    unusable: list[UnusableTrace] = []
    tasks = audit_tasks(request, unusable)
    audited: list[_Audited] = []
    if request.reaudit_us is not None:
        # All windows are found before the first is audited: a moment that a trace has no window for is a wrong call.
        for task, windows in [(task, task.windows_since(spark, request.reaudit_us)) for task in tasks]:
            audited += _reaudited(spark, task, windows, request, progress, unusable)
    else:
        if request.window != WHOLE:
            tasks = [task.continued(spark, request.window) for task in tasks]
        audited = _audit_together(spark, tasks, request, progress, unusable)
    if not audited:
        raise unusable[0].error if len(unusable) == 1 else _none_usable(unusable)
    run_keys, traces, stale = zip(*audited, strict=True)
    return AuditResult(request.target, run_keys, traces, tuple(unusable), tuple(chain.from_iterable(stale)))


def _reaudited(
    spark: SparkSession,
    task: AuditTask,
    windows: Sequence[Window],
    request: AuditRequest,
    progress: Progress,
    unusable: list[UnusableTrace],
) -> list[_Audited]:
    """Audits windows of a trace again, each from the state that the one before has just left."""
    audited: list[_Audited] = []
    for window in windows:
        of_window = _audit_together(spark, [task.within(spark, window)], request, progress, unusable)
        if not of_window:
            break  # the later ones start from its state
        audited += of_window
    return audited


def _audit_together(
    spark: SparkSession,
    tasks: Sequence[AuditTask],
    request: AuditRequest,
    progress: Progress,
    unusable: list[UnusableTrace],
) -> list[_Audited]:
    """Replays all traces, then writes those that can be audited, and returns these.

    `unusable` gets the others.
    """
    to_write: list[tuple[ReplayedTrace, int]] = []
    written: list[_Audited] = []
    try:
        for number, task in enumerate(tasks, 1):
            stages = Stages(of_several(progress, number, len(tasks)), task.run_key)
            try:
                to_write.append(_replay(spark, task, request, stages))
            except TraceError as error:
                unusable.append(UnusableTrace(task.trace.path, error))
        while to_write:
            found, refused = to_write.pop(0)
            written.append(_write(spark, found, refused, request))
    except Exception:
        # A trace whose writing failed keeps its staged rows: the next attempt finds them and knows that the tables hold
        # a part.
        for found, _ in to_write:
            found.tables.discard()
        raise
    return written


def _none_usable(unusable: Sequence[UnusableTrace]) -> TraceError:
    return TraceError(f"none of {len(unusable)} traces can be audited: {'; '.join(str(of.error) for of in unusable)}")


def _replay(spark: SparkSession, task: AuditTask, request: AuditRequest, stages: Stages) -> tuple[ReplayedTrace, int]:
    """Reads and replays one trace once, and checks whether it can carry a verdict.

    Returns:
        The replayed trace, and the number of its rows that go to `quarantine`.
    """
    started_at_us, profile, settings = time.time_ns() // 1000, task.profile, request.settings
    target, plan, trace = task.target, task.plan, task.trace
    window = None
    if plan is not None:
        refuse_window(trace)
        with stages.stage("find the window"):
            window = resolved_window(spark, trace, plan, target)
        trace = window.trace
    complete = trace.manifest.complete_from_start and (window is None or window.plan.complete_from_start)
    ends_us = None if window is None else window.plan.window.to_us
    config = replay_config(trace.manifest, profile, settings, complete, ends_us)
    reading = Reading(spark, trace, profile, settings, NOTHING if window is None else window.carried)
    with stages.stage("open"):
        tables = open_tables(spark, target, task.run_key)
    try:
        with stages.stage("read") as stage, trace_errors():
            staged = reading.packed(tables.keep, tables.staging.files)
            counts = counts_in(staged)
            stage["rows"] = sum(count.rows for count in counts)
        _refuse_nothing(settings, trace, counts)
        surveyed = survey(counts, partial(rows_in, staged), trace, settings.trace)
        refuse_several_recorders(trace, counts)
        if window is None:
            without_seq = RowsWithoutSeq(None, 0)
        else:
            keep = partial(tables.keep, name="without_seq")
            without_seq = rows_without_seq(spark, window, target, settings.trace, keep)
            window.refuse_empty(surveyed.rows_in)
        with stages.stage("replay"), trace_errors():
            results = replayed(
                reading.placed(staged, counts),
                config,
                settings.report.findings_per_rule_max,
                keep_state=window is not None and window.next_seq is not None,
            )
            rows = tables.stage(results)
        found = ReplayedTrace(task, window, trace, staged, surveyed, without_seq, tables, rows, stages, started_at_us)
        return found, found.quarantine(spark, settings.trace.quarantine_ratio_max)
    except Exception:
        tables.discard()
        raise


def _refuse_nothing(settings: Settings, trace: Trace, counts: Sequence[Count]) -> None:
    """Refuses a trace that has no row of the topics and subscriptions that are asked for."""
    choice = settings.choice
    rows_of = [(choice.topics, "topic"), (choice.subscriptions, "subscription")]
    for names, column in rows_of:
        if names and not any(getattr(count, column) for count in counts):
            raise TraceError(
                f"{trace.path} has no row of {column} {' or '.join(names)}",
                f"name the {column}s as the rows do, or use * for a part of a name",
            )


def _write(spark: SparkSession, found: ReplayedTrace, refused: int, request: AuditRequest) -> _Audited:
    """Writes the tables of one trace with its number of refused rows."""
    tables, rows, stages = found.tables, found.rows, found.stages
    keyed = [table for table in ("violations", "hot_keys") if table in rows]
    if keyed:
        with stages.stage("look up keys"):
            # A finding of a window may name an entry that was published long before it.
            earlier = None if found.window is None else found.window.carried.earlier
            keys = keys_of([rows[table] for table in keyed], found.staged, spark, earlier)
            rows.update({table: with_keys(rows[table], keys) for table in keyed})
    matched = None
    if request.baseline is not None:
        matched = matched_in(request.baseline, found.task.inputs, rows.get("violations"))
        if matched.ids:
            rows["violations"] = with_accepted(rows["violations"], matched.ids)
    with stages.stage("write tables"):
        tables.write(rows)
    refused_early = found.survey.refused + found.without_seq.number
    completeness = completeness_of(rows.get("coverage"), found.rows_in, refused_early)
    severities = severities_in(rows.get("metrics"))
    answers = answers_in(rows.get("coverage"))
    recorded_by = found.trace.manifest.recorded_by
    sample = sample_of(found.trace.manifest, request.settings.choice)
    unanswered = answers.order_verdict == "not_provable" or (
        answers.order_verdict == "nothing_sent" and answers.progress == "not_provable"
    )
    if completeness == 0 or recorded_by != BROKER or unanswered:
        # Without a judged row or dispatch, or with rows that prove nothing, a trace cannot be clean.
        severities.append("not_provable")
    tables.finish(
        {
            "verdict": worst_verdict(severities),
            **answers._asdict(),
            "completeness": completeness,
            "events_in": found.rows_in,
            "events_audited": found.rows_in - refused,
            "events_quarantined": refused,
            "profile": found.task.profile.name,
            "pulsar_version": found.trace.manifest.pulsar_version,
            "recorded_by": recorded_by,
            "keys": found.trace.manifest.keys,
            "sample": None if sample.is_all else sample.share,
            "sample_salt": None if sample.is_all else sample.salt,
            "inputs": found.task.inputs,
            "settings": request.settings.model_dump_json(),
            "findings_accepted": None if matched is None else len(matched.ids),
            "code_version": code_version(),
            "engine": engine_name(spark),
            "from_ts_us": found.bounds_us()[0],
            "to_ts_us": found.bounds_us()[1],
            **({} if found.window is None else found.window.columns(found.without_seq.number)),
            "started_at_us": found.started_at_us,
            "ended_at_us": time.time_ns() // 1000,
            "stages": stages.done,
        }
    )
    return _Audited(tables.run_key, found.task.trace, () if matched is None or found.window else matched.stale)
