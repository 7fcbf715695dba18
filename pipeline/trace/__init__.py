"""Reads dispatch traces: finds their logs, types and checks their rows, and counts those that cannot be audited."""

from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.trace.manifest import Manifest
from dispatch_audit.pipeline.trace.quarantine.quarantine import quarantined
from dispatch_audit.pipeline.trace.quarantine.row_counts import counted
from dispatch_audit.pipeline.trace.quarantine.survey import GroupSurvey, Survey, survey
from dispatch_audit.pipeline.trace.read import read_events
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import Log, Trace, open_traces

__all__ = [
    "EVENT_SCHEMA",
    "GroupSurvey",
    "Log",
    "Manifest",
    "Survey",
    "Trace",
    "counted",
    "open_traces",
    "quarantined",
    "read_events",
    "survey",
    "trace_errors",
]
