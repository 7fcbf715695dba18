"""What an audit would read of a trace and what it would refuse, without a replay and without tables."""

from pyspark.sql import SparkSession

from pipeline.replay.packed_source import configure
from pipeline.run.audit_task import profile_of
from pipeline.run.request import AuditRequest, ValidationResult
from pipeline.run.stages import Progress
from pipeline.trace import counted, open_traces, read_events, trace_errors
from pipeline.trace.quarantine.survey import counted_up, fault_of


def validate(spark: SparkSession, request: AuditRequest, progress: Progress) -> list[ValidationResult]:
    """Says of every trace what an audit would read of it; the target is not looked at.

    Raises:
        UsageError: a path or the profile makes no sense.
        TraceError: a trace is empty, cannot be read, or is of a kind that is not audited. What an audit would refuse by
            its settings is told by the result.
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
