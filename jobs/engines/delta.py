"""Says whether an audit reads or writes Delta tables through Spark, which then downloads the jars of Delta Lake."""

from collections.abc import Sequence

from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace import Trace


def needs_delta(target: Target | None, traces: Sequence[Trace]) -> bool:
    """Returns whether Spark needs Delta Lake.

    Args:
        target: where the tables go, which need no Spark below a local path; None: nowhere.
        traces: the traces to read.
    """
    if target is not None and not target.local:
        return True
    return any(log.kind in ("delta", "table") or not log.local for trace in traces for log in trace.logs)
