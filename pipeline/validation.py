"""Counts the rows of a trace that an audit would read and refuse, without a replay and without tables."""

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.replay.packed_source import configure
from dispatch_audit.pipeline.run.audit_task import profile_of
from dispatch_audit.pipeline.run.request import AuditRequest, ValidationResult
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.trace import counted, open_traces, read_events, trace_errors
from dispatch_audit.pipeline.trace.quarantine.survey import counted_up, fault_of


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
        with trace_errors():
            counts = counted(read_events(spark, trace))
        found = counted_up(spark, counts, trace)
        fault = fault_of(spark, found, trace, request.settings.trace)
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
