"""What a replay found, as rows of the tables: without `run_key`, times in microseconds."""

from pipeline.replay.rows.dispatches import dispatch_findings
from pipeline.replay.rows.findings import metrics, violations
from pipeline.replay.rows.intervals import blocking, draining
from pipeline.replay.rows.membership import assignments, consumers

__all__ = ["assignments", "blocking", "consumers", "dispatch_findings", "draining", "metrics", "violations"]
