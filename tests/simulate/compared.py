"""Comparisons of dispatchers by hand, of which pages and texts are made."""

from typing import Any

from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, VariantResult
from dispatch_audit.pipeline.simulate.measures import MeasuresRow
from dispatch_audit.pipeline.simulate.series import Series

S = 1_000_000

MEASURES: MeasuresRow = {
    "violations": 0,
    "known_bugs": 0,
    "blocked_message_s": 12.5,
    "entries": 1_500,
    "sent": 1_400,
    "never_sent": 100,
    "duplicates": 0,
    "reads": 70,
    "entries_read": 2_000,
    "entries_read_in_vain": 50,
    "replay_peak": 100,
    "ack_holes_peak": 7,
    "no_progress_s": 0.0,
    "stalled_at_s": None,
    "waited_message_s": 20.0,
    "makespan_s": 4.0,
    "makespan_bound_s": 3.5,
    "connected_s": 8.0,
    "busy_s": 6.0,
    "overflowed": 0,
    "overflowed_bytes": 0,
    "hot_keys_detected": 0,
}
STALLED = {"stalled_at_s": 2.0, "no_progress_s": 1.5, "replay_peak": 120}


def dispatcher(name: str, replay: tuple[int, ...] = (0, 60, 100, 90), **measures: Any) -> VariantResult:
    """A dispatcher of 4 steps of a second, the last one half as long."""
    sent = [400 * step for step in range(1, len(replay) + 1)]
    series = Series(S, len(replay) * S - S // 2, sent, list(replay), [100, 200, 150, 100][: len(replay)])
    return VariantResult(name, "4.0.8", "draining", {**MEASURES, **measures}, series)


def comparison(*others: VariantResult, traffic: str = "workload.toml", **more: Any) -> VariantComparison:
    """A dispatcher that stalls as given, and others."""
    given = dispatcher("as given", (0, 60, 120), **STALLED)
    fields = {"version": "4.0.8", "seed": 7, "partitions": 1, "audited": True, **more}
    return VariantComparison(traffic, dispatchers=(given, *others), **fields)
