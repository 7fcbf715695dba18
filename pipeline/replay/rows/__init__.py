"""What a replay found, as rows of the tables: without `run_key`, times in microseconds."""

from pipeline.replay.rows.capacity import capacity
from pipeline.replay.rows.consumers import consumers
from pipeline.replay.rows.dispatches import dispatch_findings
from pipeline.replay.rows.draining import draining
from pipeline.replay.rows.findings import metrics, violations
from pipeline.replay.rows.membership import assignments
from pipeline.replay.rows.mismatches import mismatch_findings
from pipeline.replay.rows.stuck import stuck_findings
from pipeline.replay.rows.waits import blocking

__all__ = [
    "assignments",
    "blocking",
    "capacity",
    "consumers",
    "dispatch_findings",
    "draining",
    "metrics",
    "mismatch_findings",
    "stuck_findings",
    "violations",
]
