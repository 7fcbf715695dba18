"""Rows of `blocking` as charts count them.

The waiting of a hash, of its consumer and of a stalled subscription overlap, so that each cause counts in one scope
only: the one with the most message-seconds (docs/BLOCKING.md).
"""

from collections import defaultdict
from collections.abc import Mapping

from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, records

# Of `blocking`, the widest last.
_SCOPES = ("hash", "consumer", "subscription")
ALL_CONSUMERS = "all consumers"


def widest_scopes(message_seconds: Mapping[tuple[str, str], float]) -> dict[str, str]:
    """Returns the scope in which each cause counts.

    Args:
        message_seconds: by cause and scope.
    """
    # Sums of the same times differ in the last digits by the order of their rows; of equal scopes the widest counts.
    ranked = sorted(message_seconds.items(), key=lambda item: (round(item[1], 3), _SCOPES.index(item[0][1])))
    return {cause: scope for (cause, scope), _ in ranked}


def of_widest_scope(blocking: Rows) -> list[Row]:
    """Returns the rows that count: those of the widest scope of their cause."""
    rows = records(blocking)
    cost: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        cost[row["cause"], row["scope"]] += row["message_seconds"]
    widest = widest_scopes(cost)
    return [row for row in rows if widest[row["cause"]] == row["scope"]]


def waiting_side(row: Row) -> str:
    """Returns who waited."""
    if row["consumer"] is None or row["scope"] == "subscription":
        return ALL_CONSUMERS
    return consumer_label(row["consumer"], row["consumer_name"])


def blocking_side(row: Row) -> str:
    """Returns for whom they waited."""
    return consumer_label(row["blocking_consumer"], row["blocking_consumer_name"])


def end_us(row: Row, last_us: int) -> int:
    """Returns when the interval ended; where it is still open, the last time of the trace."""
    return int(last_us if row["to_ts_us"] is None else row["to_ts_us"])


def last_us_of(rows: list[Row]) -> int:
    """Returns the last time that the rows name; 0 if there are none."""
    return int(max((row["to_ts_us"] or row["from_ts_us"] for row in rows), default=0))
