"""Ranked horizontal bars with their label above them, which leaves the whole width to the bars on a small screen."""

from collections.abc import Sequence

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered
from dispatch_audit.pipeline.report.charts.parts.data import Row, inline

_STEP = 34


def ranked_bars(bars: Sequence[Row], unit: str, tooltip: Sequence[alt.Tooltip] = ()) -> alt.LayerChart:
    """Returns bars in the order given.

    Args:
        bars: rows with `label`, `value` and `note` (what stands at the right, as text).
        unit: of the value.
        tooltip: what to show besides.
    """
    rows = [{**bar, "rank": rank} for rank, bar in enumerate(bars)]
    base = alt.Chart().encode(
        y=alt.Y("rank:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0)),
        tooltip=[alt.Tooltip("label:N", title=" "), alt.Tooltip("value:Q", title=unit, format=",.2f"), *tooltip],
    )
    ends = alt.X("value:Q", axis=None, scale=alt.Scale(domainMin=0))
    bar = base.mark_bar(height=8, yOffset=8, cornerRadiusEnd=2).encode(x=ends)
    label = base.mark_text(style="label", align="left", baseline="middle", dy=-7, limit=420).encode(
        x=alt.value(0), text="label:N"
    )
    note = base.mark_text(style="quiet", align="right", baseline="middle", dy=-7).encode(
        x=alt.value("width"), text="note:N"
    )
    return layered(alt.Step(_STEP), bar, label, note, data=inline(rows))
