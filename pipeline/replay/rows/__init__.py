"""Rows of the tables from the result of a replay, without the columns that all rows of a group or run share."""

from dispatch_audit.pipeline.replay.rows.answers import answers, answers_from_outside, need_a_look
from dispatch_audit.pipeline.replay.rows.assignments import assignments
from dispatch_audit.pipeline.replay.rows.blocking import blocking, draining
from dispatch_audit.pipeline.replay.rows.capacity import capacity
from dispatch_audit.pipeline.replay.rows.consumers import consumers, producers
from dispatch_audit.pipeline.replay.rows.coverage import coverage, refused
from dispatch_audit.pipeline.replay.rows.findings import metrics, violations
from dispatch_audit.pipeline.replay.rows.hot_keys import hot_keys

__all__ = [
    "answers",
    "answers_from_outside",
    "assignments",
    "blocking",
    "capacity",
    "consumers",
    "coverage",
    "draining",
    "hot_keys",
    "metrics",
    "need_a_look",
    "producers",
    "refused",
    "violations",
]
