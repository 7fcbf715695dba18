"""Waiting messages over time, a lane for each cause (Q8, Q10).

The causes overlap, so they are not stacked: if a subscription stops at the look-ahead limit, all its entries wait for
that, those of a consumer without permits too.
"""

from collections import defaultdict
from typing import Any

import altair as alt
import numpy as np

from dispatch_audit.pipeline.report.charts.parts.axes import time_axis
from dispatch_audit.pipeline.report.charts.parts.blocking_rows import end_us, last_us_of, of_widest_scope
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, cost, inline, ms

_BINS = 160
_CAUSES = 6


def waiting_by_cause(blocking: Rows, to_ts_us: int | None = None) -> list[Row]:
    """Returns the mean number of messages that waited in each of 160 parts of the time, for the costliest causes.

    A row says how many entries waited at any time of an interval, and their message-seconds; spread over the interval,
    the latter add up to what the tables state.

    Args:
        blocking: rows of `blocking`.
        to_ts_us: last time of the trace, where intervals that are still open are drawn to.
    """
    rows = of_widest_scope(blocking)
    if not rows:
        return []
    first_us = min(row["from_ts_us"] for row in rows)
    last_us = max(to_ts_us or 0, last_us_of(rows), first_us + 1)
    edges = np.linspace(first_us, last_us, _BINS + 1)
    by_cause: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in rows:
        by_cause[row["cause"]].append((row["from_ts_us"], end_us(row, last_us), row["message_seconds"]))
    totals = {cause: sum(seconds for _, _, seconds in intervals) for cause, intervals in by_cause.items()}
    shown = sorted(totals, key=lambda cause: (-totals[cause], cause))[:_CAUSES]
    bin_s = (last_us - first_us) / 1e6 / _BINS
    found: list[Row] = []
    for cause in shown:
        lane = f"{cause}: {cost(totals[cause])} message-seconds"
        waiting = np.diff(_waited_until(edges, np.array(by_cause[cause], dtype=float))) / bin_s
        found += [
            {"cause": cause, "lane": lane, "at": ms(float(at_us)), "waiting": round(float(number), 3)}
            for at_us, number in zip(edges[:-1], waiting, strict=True)
        ]
    return found


def _waited_until(edges_us: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Returns the message-seconds of all intervals up to each edge, each spread evenly over its interval."""
    total = np.zeros(len(edges_us))
    # In parts, which bounds the memory for 20,000 intervals to some megabytes.
    for part in np.array_split(intervals, len(intervals) // 2_000 + 1):
        begin, end, seconds = part[:, :1], part[:, 1:2], part[:, 2:]
        passed = np.clip((edges_us - begin) / np.maximum(end - begin, 1), 0, 1)
        total += (passed * seconds).sum(axis=0)
    return total


def waiting_over_time(blocking: Rows, to_ts_us: int | None = None) -> alt.FacetChart:
    """Returns a lane for each cause with the number of messages that waited.

    Args:
        blocking: rows of `blocking` of a run.
        to_ts_us: last time of the trace.
    """
    rows = waiting_by_cause(blocking, to_ts_us)
    lanes = list(dict.fromkeys(row["lane"] for row in rows))
    times = [row["at"] for row in rows] or [0]
    y: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=2, minExtent=44, maxExtent=44, format="~s")}
    area = (
        alt.Chart()
        .mark_area(interpolate="step-after", fillOpacity=0.3, line={"strokeWidth": 1.5})
        .encode(
            x=time_axis("at", min(times), max(times)),
            y=alt.Y("waiting:Q", **y),
            tooltip=[alt.Tooltip("cause:N"), alt.Tooltip("waiting:Q", title="messages waiting", format=",.1f")],
        )
        .properties(height=54)
    )
    header = alt.Header(labelAngle=0, labelOrient="top", title=None)
    chart: alt.FacetChart = (
        alt.layer(area, data=inline([]))
        .facet(row=alt.Row("lane:N", sort=lanes, header=header))
        .resolve_scale(y="independent")
        .properties(spacing=10)
    )
    # Set at the end, because Altair copies a chart with its data at each step.
    chart.data = inline(rows)
    return chart
