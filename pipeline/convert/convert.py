"""Converts a trace. This module only orders the steps; other modules do them.

The trace is read twice: the first reading finds out whether an audit would accept it, and collects the refused rows;
the second one writes the others. A trace that an audit refuses is not converted, because the converted trace, which is
without its refused rows, would be accepted.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.convert import through_spark, to_folder
from dispatch_audit.pipeline.convert.request import (
    QUARANTINE,
    Converted,
    ConvertRequest,
    ConvertResult,
    parse_converted,
)
from dispatch_audit.pipeline.convert.to_store import put_in_store
from dispatch_audit.pipeline.convert.work_folder import put_in_place, work_folder
from dispatch_audit.pipeline.engine.limits import refuse_target
from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.plan.pack_on_spark import checked_rows
from dispatch_audit.pipeline.plan.packed_source import configure, counts_in
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.run.target_beside_traces import refuse_target_in_trace
from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.tables.delta_rs.local_staging import LocalStaging
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.through_spark.spark_staging import SparkStaging
from dispatch_audit.pipeline.trace import Survey, Trace, open_traces, survey
from dispatch_audit.pipeline.trace.side_by_side import put_together
from dispatch_audit.pipeline.trace.workers.tasks import evaluated

_STAGED = "convert"


def opened_trace(request: ConvertRequest) -> Trace:
    """Returns the one trace of a request.

    Raises:
        UsageError: there are several, or one does not exist.
        TraceError: it cannot be opened.
    """
    traces = put_together(open_traces(request.paths, request.profile))
    if len(traces) > 1:
        raise UsageError(f"these are {len(traces)} traces: {traces[0].path}, ...", "convert them one by one")
    return traces[0]


def convert(spark: SparkSession, request: ConvertRequest, progress: Progress) -> ConvertResult:
    """Converts the trace of a request.

    Args:
        spark: the session.
        request: the trace and the target.
        progress: called with the name of each stage as it begins.

    Raises:
        UsageError: a path or the target is wrong, or the target is not empty, or lies in the folder of the trace.
        TraceError: an audit would refuse the trace; nothing was converted.
    """
    trace, converted = opened_trace(request), parse_converted(request.target, request.form)
    refuse_target_in_trace(converted.target, [trace], "--to")
    configure(spark, request.settings)
    place = converted.target.place
    if isinstance(place, Path):
        to_folder.refuse_filled(place, replace=request.replace)
        with work_folder(place) as made:
            result = _made(spark, request, trace, converted, made, progress)
            put_in_place(made, place)
        return result
    if place is not None and on_sail(spark):
        to_folder.refuse_filled(place, replace=request.replace)
        with TemporaryDirectory(prefix="dispatch-audit-") as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            result = _made(spark, request, trace, converted, made, progress)
            put_in_store(made, place)
        return result
    refuse_target(spark, converted.trace)
    through_spark.refuse_existing(spark, converted, replace=request.replace)
    return _through_spark(spark, request, trace, converted, progress)


def _made(
    spark: SparkSession, request: ConvertRequest, trace: Trace, converted: Converted, made: Path, progress: Progress
) -> ConvertResult:
    """Makes the converted trace in a folder of this machine, which has nothing in it; stages rows beside it."""
    staging = LocalStaging(Target(str(made.parent), named=False, local=True), _STAGED)
    found, refused = _checked(spark, request, trace, staging, progress)
    progress("write")
    with trace_errors():
        log = to_folder.write_log(spark, trace, converted, made)
        kept = to_folder.write_quarantine(refused, converted, made) if found.refused else 0
    has_manifest = to_folder.copy_manifest(trace, made)
    _nothing_lost(found, log.rows, kept, trace)
    quarantine = f"{converted.target.location}/{QUARANTINE}" if kept else ""
    return _result(trace, converted, found, quarantine, log.topics, log.files, has_manifest)


def _through_spark(
    spark: SparkSession, request: ConvertRequest, trace: Trace, converted: Converted, progress: Progress
) -> ConvertResult:
    staging = SparkStaging(spark, converted.target, _STAGED)
    try:
        found, refused = _checked(spark, request, trace, staging, progress)
        progress("write")
        with trace_errors():
            kept = through_spark.write_quarantine(refused, converted)
            # Last, because a table with rows looks whole.
            topics, rows = through_spark.write_log(spark, trace, converted)
        try:
            _nothing_lost(found, rows, kept, trace)
        except TraceError:
            through_spark.empty_log(spark, converted)
            raise
    finally:
        staging.discard()
    where = converted.target.identifier(converted.quarantine) if kept else ""
    return _result(trace, converted, found, where, topics, None, has_manifest=False)


def _checked(
    spark: SparkSession, request: ConvertRequest, trace: Trace, staging: Staging, progress: Progress
) -> tuple[Survey, DataFrame]:
    """Returns the survey of a trace that an audit would accept, and its refused rows."""
    progress("check")

    def keep(frame: DataFrame) -> DataFrame:
        return staging.keep_rows(frame, "packed")

    work = checked_rows(request.settings.spark.chunk_rows, texts_max=None)
    staged = evaluated(spark, trace, work, STAGED_SCHEMA, keep)
    refused = rows_in(staged)
    return survey(counts_in(staged), lambda: refused, trace, request.settings.trace), refused


def _nothing_lost(found: Survey, converted: int, kept: int, trace: Trace) -> None:
    """Raises a TraceError if the two readings did not give the same rows."""
    if (converted, kept) != (found.rows_in - found.refused, found.refused):
        raise TraceError(
            f"{trace.path} had {found.rows_in} rows in the first reading, and {converted + kept} in the second",
            "convert it when nobody writes to it",
        )


def _result(
    trace: Trace,
    converted: Converted,
    found: Survey,
    quarantine: str,
    topics: int,
    files: int | None,
    has_manifest: bool,
) -> ConvertResult:
    return ConvertResult(
        path=trace.path,
        trace=converted.trace,
        quarantine=quarantine,
        form=converted.form,
        topics=topics,
        files=files,
        events_in=found.rows_in,
        events_converted=found.rows_in - found.refused,
        events_quarantined=found.refused,
        has_manifest=has_manifest,
    )
