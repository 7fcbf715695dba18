"""Reads dispatch traces: finds their logs, types and checks their rows, and counts those that cannot be audited."""

from pipeline.spark_errors import trace_errors
from pipeline.trace.manifest import Manifest
from pipeline.trace.quarantine.quarantine import quarantined
from pipeline.trace.quarantine.row_counts import counted
from pipeline.trace.quarantine.survey import GroupSurvey, Survey, survey
from pipeline.trace.read import read_events
from pipeline.trace.schema import EVENT_SCHEMA
from pipeline.trace.sources import Log, Trace, open_traces

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
