"""Counts the rows of a trace that an audit would read and refuse, without a replay and without tables."""

from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.contract.profile import judged_as
from dispatch_audit.pipeline.replay.pack_on_spark import checked_rows
from dispatch_audit.pipeline.replay.packed_source import configure, counts_in
from dispatch_audit.pipeline.replay.packing.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.replay.staged_texts import rows_in
from dispatch_audit.pipeline.run.audit_task import profile_of
from dispatch_audit.pipeline.run.request import AuditRequest, ValidationResult
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.trace.quarantine.survey import Refused, counted_up, fault_of
from dispatch_audit.pipeline.trace.workers.tasks import evaluated


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
                judged_as=judged_as(trace.manifest.pulsar_version, profile),
                events_in=found.rows_in,
                events_quarantined=found.refused,
                reasons=dict(found.refused_by_reason),
                fault="" if fault is None else str(fault),
                gaps=found.gaps,
                rows_dropped=found.dropped,
            )
        )
    return results


def counts_of(spark: SparkSession, trace: Trace, chunk_rows: int) -> tuple[list[Count], Refused]:
    """Returns the counts of the rows of a trace, and what returns its refused rows."""

    def collected(frame: DataFrame) -> DataFrame:
        # They are few: of the refused rows only those that a message may name.
        return spark.createDataFrame(frame.toArrow(), STAGED_SCHEMA)

    staged = evaluated(spark, trace, checked_rows(chunk_rows), STAGED_SCHEMA, collected)
    return counts_in(staged), lambda: rows_in(staged)
