"""Refuses what cannot be done with a trace that was recorded outside of the broker, in one line."""

from collections.abc import Iterable

from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.trace import Trace
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count


def refuse_window(trace: Trace) -> None:
    """Refuses a window of a log, for which no state is kept.

    Raises:
        UsageError: the trace was recorded outside of the broker.
    """
    if trace.manifest.recorded_by != BROKER:
        raise UsageError(
            f"{trace.path} was recorded by {trace.manifest.recorded_by}, and such traces have no windows",
            "leave --from, --to and --reaudit out",
        )


def refuse_several_recorders(trace: Trace, counts: Iterable[Count]) -> None:
    """Refuses rows of several recorders, whose seqs and clocks say nothing about each other.

    Raises:
        TraceError: the trace was recorded outside of the broker, by several recorders.
    """
    names = sorted({count.broker for count in counts if count.broker is not None})
    if trace.manifest.recorded_by != BROKER and len(names) > 1:
        raise TraceError(
            f"{trace.path} has rows of {len(names)} recorders outside of the broker, {names[0]} and others, which have "
            "no common order",
            "audit each by itself",
        )
