"""Counts the rows of a trace that an audit would read and refuse, without a replay and without tables."""

from functools import partial

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.replay.pack_on_spark import checked_files
from dispatch_audit.pipeline.replay.packed_source import configure, counts_in
from dispatch_audit.pipeline.replay.packing.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.replay.staged_refusals import refused_in
from dispatch_audit.pipeline.run.audit_task import profile_of
from dispatch_audit.pipeline.run.request import AuditRequest, ValidationResult
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.spark_errors import worker_died
from dispatch_audit.pipeline.trace import Trace, counted, open_traces, read_events, trace_errors
from dispatch_audit.pipeline.trace.quarantine.quarantine import refused_rows
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.trace.quarantine.survey import Refused, counted_up, fault_of
from dispatch_audit.pipeline.trace.workers.shares import shares_of


def validate(spark: SparkSession, request: AuditRequest, progress: Progress) -> list[ValidationResult]:
    """Returns for every trace the rows that an audit would read and refuse; the target is not used.

    Raises:
        UsageError: a path or the profile does not exist.
        TraceError: a trace is empty, cannot be read, or is of a kind that is not audited. A trace that the settings
            refuse is no error: its result has the fault.
    """
    configure(spark, request.settings)
    results = []
    for trace in open_traces(request.paths, request.profile):
        profile = profile_of(trace, request)
        progress("survey")
        counts, refused = counts_of(spark, trace, request.settings.spark.chunk_rows)
        found = counted_up(counts, refused, trace)
        fault = fault_of(found, refused, trace, request.settings.trace)
        results.append(
            ValidationResult(
                path=trace.path,
                profile=profile.name,
                events_in=found.rows_in,
                events_quarantined=found.refused,
                reasons=dict(found.refused_by_reason),
                fault="" if fault is None else str(fault),
            )
        )
    return results


def counts_of(spark: SparkSession, trace: Trace, chunk_rows: int) -> tuple[list[Count], Refused]:
    """Returns the counts of the rows of a trace, and what returns its refused rows."""
    with trace_errors():
        shares = shares_of(trace)
        if shares:
            try:
                # They are few: of the refused rows only those that a message may name.
                found = checked_files(spark, shares, chunk_rows).toArrow()
                staged = spark.createDataFrame(found, STAGED_SCHEMA)
                return counts_in(staged), lambda: refused_in(staged)
            except Exception as error:
                # A damaged file ended the worker; Spark's own reader survives it and reports the damage.
                if not worker_died(error):
                    raise
        return counted(read_events(spark, trace)), partial(refused_rows, spark, trace)
