"""What several charts are made of: the axis of time, and layers on one pair of axes."""

from typing import Any

import altair as alt

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def time_axis(field: str, from_ms: float, to_ms: float, **more: Any) -> alt.X:
    """Returns the time axis of a chart, UTC, with as much of the date as the time from first to last needs."""
    length = to_ms - from_ms
    form = "%H:%M:%S" if length < _HOUR_MS else "%H:%M" if length < _DAY_MS else "%d %b %H:%M"
    axis = alt.Axis(format=form, title="time (UTC)", tickCount=6, labelFlush=True)
    # As expressions: Vega-Lite turns numbers into dates by an expression that the interpreter of the page cannot use.
    first, last = (alt.ExprRef(str(time)) for time in (from_ms, max(to_ms, from_ms + 1)))
    return alt.X(f"{field}:T", scale=alt.Scale(type="utc", domainMin=first, domainMax=last), axis=axis, **more)


def layered(height: int | alt.Step, *layers: alt.Chart, data: alt.InlineData | None = None) -> alt.LayerChart:
    """Returns charts on top of each other.

    Args:
        height: in pixels, or in pixels for each lane.
        layers: the lowest first.
        data: of the layers that have none of their own.
    """
    chart: alt.LayerChart = alt.layer(*layers).properties(height=height)
    # Set at the end, because Altair copies a chart with its data at each step.
    if data is not None:
        chart.data = data
    return chart
