"""Rows of the tables from the result of a replay: without `run_key`, times in microseconds."""

from dispatch_audit.pipeline.replay.rows.answers import answers, answers_from_outside, held_back
from dispatch_audit.pipeline.replay.rows.assignments import assignments
from dispatch_audit.pipeline.replay.rows.blocking import blocking
from dispatch_audit.pipeline.replay.rows.capacity import capacity
from dispatch_audit.pipeline.replay.rows.consumers import consumers
from dispatch_audit.pipeline.replay.rows.counter_findings import counter_findings
from dispatch_audit.pipeline.replay.rows.coverage import coverage, with_completeness
from dispatch_audit.pipeline.replay.rows.draining import draining
from dispatch_audit.pipeline.replay.rows.hot_keys import hot_keys
from dispatch_audit.pipeline.replay.rows.producers import producers
from dispatch_audit.pipeline.replay.rows.refused import refused
from dispatch_audit.pipeline.replay.rows.settings_findings import settings_findings
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.mixed_batches import mixed_key_batches
from dispatch_audit.pipeline.replay.verdicts.rule_findings import metrics, violations
from dispatch_audit.pipeline.replay.verdicts.snapshot_findings import mismatch_findings
from dispatch_audit.pipeline.replay.verdicts.stall_findings import stuck_findings

__all__ = [
    "answers",
    "answers_from_outside",
    "assignments",
    "blocking",
    "capacity",
    "consumers",
    "counter_findings",
    "coverage",
    "dispatch_findings",
    "draining",
    "held_back",
    "hot_keys",
    "metrics",
    "mismatch_findings",
    "mixed_key_batches",
    "producers",
    "refused",
    "settings_findings",
    "stuck_findings",
    "violations",
    "with_completeness",
]
