"""The replay queue against the look-ahead limit, and when it would be full (Q20)."""

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered, time_axis
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, inline, ms, records

SAMPLES_MAX = 300
# A forecast is drawn for no longer than this share of the time that was sampled.
_AHEAD = 0.25


def sampled(capacity: Rows) -> list[Row]:
    """Returns the largest replay queue of each of 300 parts of the time, with the limit that applied to it."""
    rows = sorted(records(capacity), key=lambda row: row["to_ts_us"])
    size = -(-len(rows) // SAMPLES_MAX) or 1
    parts = (rows[at : at + size] for at in range(0, len(rows), size))
    return [max(part, key=lambda row: (row["replay_size"], row["to_ts_us"])) for part in parts]


def fullest(capacity: Rows) -> Row | None:
    """Returns the first sample that is nearest to the limit; without any limit, the one with the largest queue."""
    rows = records(capacity)
    near = [row for row in rows if row["look_ahead_limit"]]
    if near:
        return max(near, key=lambda row: (min(1.0, row["replay_size"] / row["look_ahead_limit"]), -row["to_ts_us"]))
    return max(rows, key=lambda row: row["replay_size"], default=None)


def forecast(capacity: Rows) -> Row | None:
    """Returns when the last sample says that the limit will be reached; None: the queue does not grow or is full."""
    last = max(records(capacity), key=lambda row: row["to_ts_us"], default=None)
    return last if last is not None and last["seconds_left"] else None


def replay_against_limit(capacity: Rows) -> alt.LayerChart:
    """Returns the replay queue as a line, the limit dashed, and the forecast of the last sample dotted.

    Args:
        capacity: rows of `capacity` of one subscription.
    """
    samples = sampled(capacity)
    points: list[Row] = [
        {
            "at": ms(row["to_ts_us"]),
            "replay": row["replay_size"],
            "limit": row["look_ahead_limit"],
            "waiting": row["waiting"],
            "how": "reported by the broker" if row["replay_size_reported"] else "lower bound",
        }
        for row in samples
    ]
    times = [point["at"] for point in points] or [0]
    last_ms = max(times)
    ahead: list[Row] = []
    if row := forecast(capacity):
        until = min(row["seconds_left"] * 1000, (last_ms - min(times)) * _AHEAD)
        size = row["replay_size"] + row["growth_per_second"] * until / 1000
        ahead = [{"at": last_ms, "replay": row["replay_size"]}, {"at": last_ms + until, "replay": size}]
        last_ms += until
    x = time_axis("at", min(times), last_ms)
    y = alt.Y("replay:Q", axis=alt.Axis(title="entries in the replay queue", tickCount=4, format="~s"))
    base = alt.Chart(inline(points)).encode(
        x=x,
        tooltip=[
            alt.Tooltip("replay:Q", title="replay queue", format=","),
            alt.Tooltip("limit:Q", title="look-ahead limit", format=","),
            alt.Tooltip("waiting:Q", title="waiting entries", format=","),
            alt.Tooltip("how:N", title="replay queue is"),
        ],
    )
    layers: list[alt.Chart] = [
        base.mark_area(interpolate="step-after", fillOpacity=0.18, line={"strokeWidth": 1.5}).encode(y=y)
    ]
    if any(point["limit"] is not None for point in points):
        limit = base.mark_line(style="limit", interpolate="step-after").encode(y="limit:Q")
        newest = [point for point in points if point["limit"] is not None][-1:]
        name = (
            alt.Chart(inline(newest))
            .mark_text(style="wrong_label", align="left", baseline="top", dx=4, dy=5)
            .encode(x=alt.value(0), y="limit:Q", text=alt.value("look-ahead limit"))
        )
        layers += [limit, name]
    if ahead:
        layers.append(alt.Chart(inline(ahead)).mark_line(strokeDash=[2, 3], style="second").encode(x=x, y=y))
    return layered(170, *layers)
