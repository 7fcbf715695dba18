"""Rows of the tables from the result of a replay: without `run_key`, times in microseconds."""

from pipeline.replay.rows.assignments import assignments
from pipeline.replay.rows.blocking import blocking
from pipeline.replay.rows.capacity import capacity
from pipeline.replay.rows.consumers import consumers
from pipeline.replay.rows.coverage import coverage, with_completeness
from pipeline.replay.rows.draining import draining
from pipeline.replay.rows.hot_keys import hot_keys
from pipeline.replay.rows.producers import producers
from pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from pipeline.replay.verdicts.mixed_batches import mixed_key_batches
from pipeline.replay.verdicts.rule_findings import metrics, violations
from pipeline.replay.verdicts.snapshot_findings import mismatch_findings
from pipeline.replay.verdicts.stall_findings import stuck_findings

__all__ = [
    "assignments",
    "blocking",
    "capacity",
    "consumers",
    "coverage",
    "dispatch_findings",
    "draining",
    "hot_keys",
    "metrics",
    "mismatch_findings",
    "mixed_key_batches",
    "producers",
    "stuck_findings",
    "violations",
    "with_completeness",
]
