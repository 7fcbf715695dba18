"""The share of the hashes against the share of the traffic of each consumer (Q17).

The table has the mean share of the hashes while a consumer was connected, but the traffic of the whole time. Both are
put on the whole time here, so that a consumer of a minute does not look idle.
"""

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, inline, records

BALANCED_MAX = 20


def unbalanced(consumers: Rows, to_ts_us: int | None = None) -> list[Row]:
    """Returns the consumers of which both shares are known, those with the largest difference first.

    Columns: label, hashes and traffic (shares of the whole time, 0 to 1).

    Args:
        consumers: rows of `consumers` of one subscription.
        to_ts_us: last time of the trace.
    """
    rows = [row for row in records(consumers) if row["hash_share"] is not None and row["traffic_share"] is not None]
    times = [row[column] for row in rows for column in ("joined_at_us", "left_at_us") if row[column] is not None]
    first_us, last_us = min(times, default=0), max([*times, to_ts_us or 0])
    found = [
        {
            "label": consumer_label(row["consumer"], row["consumer_name"]),
            "hashes": row["hash_share"] * _connected(row, first_us, last_us) / max(last_us - first_us, 1),
            "traffic": row["traffic_share"],
        }
        for row in rows
    ]
    return sorted(found, key=lambda row: (-abs(row["hashes"] - row["traffic"]), row["label"]))


def _connected(row: Row, first_us: int, last_us: int) -> int:
    """Returns how long a consumer was connected, in microseconds."""
    joined = first_us if row["joined_at_us"] is None else row["joined_at_us"]
    left = last_us if row["left_at_us"] is None else row["left_at_us"]
    return max(1, left - joined)


def hashes_against_traffic(consumers: Rows, to_ts_us: int | None = None) -> alt.LayerChart:
    """Returns a line for each consumer from its share of the hashes to its share of the traffic.

    Args:
        consumers: rows of `consumers` of one subscription. The twenty with the largest difference are drawn.
        to_ts_us: last time of the trace.
    """
    rows = unbalanced(consumers, to_ts_us)[:BALANCED_MAX]
    order = [row["label"] for row in rows]
    ends = [
        {"label": row["label"], "share": row[kind], "of": f"share of {kind}"}
        for row in rows
        for kind in ("hashes", "traffic")
    ]
    axis = alt.Axis(format="%", title="share over the whole time", tickCount=5, grid=True)
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelPadding=9))
    line = (
        alt.Chart(inline(rows))
        .mark_rule(style="guide", strokeWidth=2)
        .encode(x=alt.X("hashes:Q", axis=axis), x2="traffic:Q", y=y)
    )
    kinds = ["share of hashes", "share of traffic"]
    points = (
        alt.Chart(inline(ends))
        .mark_point(size=70)
        .encode(
            x=alt.X("share:Q", axis=axis),
            y=y,
            shape=alt.Shape("of:N", scale=alt.Scale(domain=kinds, range=["square", "circle"])),
            color=alt.Color("of:N", scale=alt.Scale(domain=kinds)),
            tooltip=[
                alt.Tooltip("label:N", title="consumer"),
                alt.Tooltip("of:N", title=" "),
                alt.Tooltip("share:Q", format=".2%"),
            ],
        )
    )
    return layered(alt.Step(20), line, points)
