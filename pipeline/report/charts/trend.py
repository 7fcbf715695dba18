"""The runs before this one: findings and waiting, to see whether it got better or worse (Q28)."""

import altair as alt

from dispatch_audit.pipeline.contract.severity import WORST_FIRST
from dispatch_audit.pipeline.report.charts.parts.axes import layered
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, inline, records
from dispatch_audit.pipeline.report.charts.theme import SEVERITY_COLOURS

RUNS_MAX = 30
_SHOWN = WORST_FIRST[:3]
_HALF = alt.RelativeBandSize(0.5)


def _with_room_above(most: float) -> alt.Scale:
    """Returns a scale that leaves room for the number above the highest bar."""
    return alt.Scale(domainMin=0, domainMax=max(most, 1) * 1.2, nice=False)


def trend_of_findings(runs: Rows) -> alt.LayerChart:
    """Returns a stacked bar of findings for each run, and its number above the bar.

    Args:
        runs: in order of time; each with `label`, and the number of findings of each severity under its name.
    """
    rows = records(runs)[-RUNS_MAX:]
    order = [row["label"] for row in rows]
    bars = [
        {"label": row["label"], "severity": severity.replace("_", " "), "rank": rank, "number": row[severity]}
        for row in rows
        for rank, severity in enumerate(_SHOWN)
        if row[severity]
    ]
    totals = [{"label": row["label"], "number": sum(row[severity] for severity in _SHOWN)} for row in rows]
    names = [severity.replace("_", " ") for severity in _SHOWN]
    x = alt.X("label:N", sort=order, axis=alt.Axis(title=None, labelAngle=-40, labelLimit=130))
    most = max((row["number"] for row in totals), default=0)
    y = alt.Y("number:Q", axis=alt.Axis(title="findings", tickCount=3, format="~s"), scale=_with_room_above(most))
    colours = [SEVERITY_COLOURS[severity] for severity in _SHOWN]
    bar = (
        alt.Chart(inline(bars))
        .mark_bar(width=_HALF)
        .encode(
            x=x,
            y=y,
            order="rank:O",
            color=alt.Color("severity:N", scale=alt.Scale(domain=names, range=colours)),
            tooltip=[alt.Tooltip("label:N", title="run"), alt.Tooltip("severity:N"), alt.Tooltip("number:Q")],
        )
    )
    total = (
        alt.Chart(inline(totals))
        .mark_text(style="label", dy=-8)
        .encode(x=x, y=y, text=alt.Text("number:Q", format=","))
    )
    return layered(140, bar, total)


def trend_of_waiting(runs: Rows) -> alt.LayerChart:
    """Returns a bar of message-seconds for each run.

    Args:
        runs: in order of time; each with `label`, `message_seconds` and `cause`, the one that cost most.
    """
    rows: list[Row] = [{**row, "cause": row["cause"] or "nothing waited"} for row in records(runs)[-RUNS_MAX:]]
    order = [row["label"] for row in rows]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("label:N", sort=order, axis=alt.Axis(title=None, labelAngle=-40, labelLimit=130)),
        y=alt.Y(
            "message_seconds:Q",
            axis=alt.Axis(title="message-seconds waited", tickCount=3, format="~s"),
            scale=_with_room_above(max((row["message_seconds"] for row in rows), default=0)),
        ),
        tooltip=[
            alt.Tooltip("label:N", title="run"),
            alt.Tooltip("message_seconds:Q", title="message-seconds", format=",.1f"),
            alt.Tooltip("cause:N", title="mostly"),
        ],
    )
    total = base.mark_text(style="label", dy=-8).encode(text=alt.Text("message_seconds:Q", format=".3s"))
    return layered(140, base.mark_bar(width=_HALF), total)
