"""Says what an audit needs Spark for, and whether Spark then needs Delta Lake, whose jars it downloads."""

from collections.abc import Sequence

from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace import Trace


def needs_delta(target: Target | None, traces: Sequence[Trace]) -> bool:
    """Returns whether Spark, if it is the engine, needs Delta Lake.

    Args:
        target: where the tables go, which need no Spark below a local path; None: nowhere.
        traces: the traces to read.
    """
    return (target is not None and not target.local) or needs_spark(target, traces)


def needs_spark(target: Target | None, traces: Sequence[Trace]) -> bool:
    """Returns whether the embedded engine may not do: catalogs, URIs of no object store, and Delta tables to read.

    A Delta table may have features that only Spark reads. The arguments are those of `needs_delta`.
    """
    if target is not None and target.place is None:
        return True
    return any(log.kind in ("delta", "table") or log.place is None for trace in traces for log in trace.logs)
