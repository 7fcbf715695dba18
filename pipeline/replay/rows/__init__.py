"""What a replay found, as rows of the tables: without `run_key`, times in microseconds."""

from pipeline.replay.rows.capacity import capacity
from pipeline.replay.rows.consumers import consumers
from pipeline.replay.rows.dispatches import dispatch_findings
from pipeline.replay.rows.draining import draining
from pipeline.replay.rows.findings import metrics, violations
from pipeline.replay.rows.hot_keys import hot_keys
from pipeline.replay.rows.membership import assignments
from pipeline.replay.rows.mismatches import mismatch_findings
from pipeline.replay.rows.partitions import partitions, with_completeness
from pipeline.replay.rows.producers import mixed_key_batches, producers
from pipeline.replay.rows.stuck import stuck_findings
from pipeline.replay.rows.waits import blocking

__all__ = [
    "assignments",
    "blocking",
    "capacity",
    "consumers",
    "dispatch_findings",
    "draining",
    "hot_keys",
    "metrics",
    "mismatch_findings",
    "mixed_key_batches",
    "partitions",
    "producers",
    "stuck_findings",
    "violations",
    "with_completeness",
]
