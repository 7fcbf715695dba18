"""One quantity over time under several dispatchers, a lane for each of them (Q23).

Dispatchers often behave alike, and of equal lines in one chart only one would be seen. All lanes have one scale, and
each repeats the line of the first.
"""

from typing import Any

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.data import Rows, inline, records

# The unit stands above the axis, beside the title of the lane.
_AXIS = 44
_UNIT_AT = {"titleAlign": "right", "titleX": -4, "titleY": -8}
_LANE = 54


def over_time(rows: Rows, unit: str, legend: str) -> alt.FacetChart:
    """Returns a lane for each dispatcher.

    Args:
        rows: in order of time, lane by lane: `lane` (its title), `at` (seconds), `value` (from then on; None: it is
            over), `given` (that of the first lane; None in the first lane itself, and where that is over), and in one
            row of a lane with a stall `stall` (seconds).
        unit: of the value, for the axis.
        legend: what the value is, for tooltips.
    """
    points = records(rows)
    lanes = list(dict.fromkeys(row["lane"] for row in points))
    # The format by itself would write 0k beside 20k.
    labels = {"format": "~s", "labelExpr": "datum.value ? datum.label : '0'"}
    axis: dict[str, Any] = {"minExtent": _AXIS, "maxExtent": _AXIS, **_UNIT_AT, **labels}
    x = alt.X("at:Q", axis=alt.Axis(title="simulated time, s", tickCount=6), scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", axis=alt.Axis(title=unit, tickCount=2, **axis))
    base = alt.Chart().encode(x=x)
    area = base.mark_area(interpolate="step-after", fillOpacity=0.3, line={"strokeWidth": 1.5}).encode(
        y=y,
        tooltip=[
            alt.Tooltip("lane:N", title="dispatcher"),
            alt.Tooltip("at:Q", title="second", format=",.1f"),
            alt.Tooltip("value:Q", title=legend, format=",.0f"),
        ],
    )
    given = base.mark_line(style="guide", interpolate="step-after", strokeDash=[3, 2]).encode(y="given:Q")
    stall = alt.Chart().mark_rule(style="wrong", strokeWidth=1.5).encode(x="stall:Q")
    chart: alt.FacetChart = (
        alt.layer(area, given, stall, data=inline([]))
        .properties(height=_LANE)
        .facet(row=alt.Row("lane:N", sort=lanes, header=alt.Header(labelAngle=0, labelOrient="top", title=None)))
        .properties(spacing=10)
    )
    # Set at the end, because Altair copies a chart with its data at each step.
    chart.data = inline(points)
    return chart
