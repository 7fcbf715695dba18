"""Reads dispatch traces: finds their logs, types and checks their rows, and counts those that cannot be audited."""

from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.trace.manifest import Manifest
from dispatch_audit.pipeline.trace.quarantine.survey import GroupSurvey, Survey, survey
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import Log, Trace, UnusableTrace, open_traces

__all__ = [
    "EVENT_SCHEMA",
    "GroupSurvey",
    "Log",
    "Manifest",
    "Survey",
    "Trace",
    "UnusableTrace",
    "open_traces",
    "survey",
    "trace_errors",
]
