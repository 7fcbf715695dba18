"""What a replay found, as rows of the tables: without `run_key`, times in microseconds."""

from pipeline.replay.rows.dispatches import dispatch_findings
from pipeline.replay.rows.findings import metrics, violations
from pipeline.replay.rows.hot_keys import hot_keys
from pipeline.replay.rows.intervals import blocking, draining
from pipeline.replay.rows.membership import assignments, consumers
from pipeline.replay.rows.partitions import partitions, with_completeness
from pipeline.replay.rows.producers import mixed_key_batches, producers

__all__ = [
    "assignments",
    "blocking",
    "consumers",
    "dispatch_findings",
    "draining",
    "hot_keys",
    "metrics",
    "mixed_key_batches",
    "partitions",
    "producers",
    "violations",
    "with_completeness",
]
