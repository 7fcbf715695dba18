"""Rows of `blocking` as charts count them."""

from collections import defaultdict

from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, records
from dispatch_audit.pipeline.report.widest_scopes import widest_scopes

ALL_CONSUMERS = "all consumers"


def of_widest_scope(blocking: Rows) -> list[Row]:
    """Returns the rows of the scope in which their cause counts (`widest_scopes`)."""
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
    """Returns the consumer that they waited for."""
    return consumer_label(row["blocking_consumer"], row["blocking_consumer_name"])


def end_us(row: Row, last_us: int) -> int:
    """Returns when the interval ended; where it is still open, the last time of the trace."""
    return int(last_us if row["to_ts_us"] is None else row["to_ts_us"])


def last_us_of(rows: list[Row]) -> int:
    """Returns the last time that the rows name; 0 if there are none."""
    return int(max((row["to_ts_us"] or row["from_ts_us"] for row in rows), default=0))
