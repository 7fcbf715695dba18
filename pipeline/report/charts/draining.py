"""The hashes that drained, each from the change that moved it to what ended it (PIP-379; Q3, Q11)."""

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered, time_axis
from dispatch_audit.pipeline.report.charts.parts.blocking_rows import end_us, last_us_of
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, inline, ms, records
from dispatch_audit.pipeline.report.wording import duration

SPANS_MAX = 800
_OPEN = "still open"


def longest_spans(draining: Rows, to_ts_us: int | None = None) -> list[Row]:
    """Returns the spans of draining hashes, the longest first.

    Args:
        draining: rows of `draining`.
        to_ts_us: last time of the trace, where open spans are drawn to.
    """
    rows = records(draining)
    last_us = max(to_ts_us or 0, last_us_of(rows))
    spans = [
        {
            "hash": row["sticky_hash"],
            "from": ms(row["from_ts_us"]),
            "to": ms(end_us(row, last_us)),
            "seconds": (end_us(row, last_us) - row["from_ts_us"]) / 1e6,
            "holder": consumer_label(row["holder"], row["holder_name"]),
            "new_owner": consumer_label(row["new_owner"], row["new_owner_name"]),
            "entries": row["entries_at_start"],
            "ended_by": row["ended_by"] or _OPEN,
        }
        for row in rows
    ]
    for span in spans:
        span["lasted"] = duration(span["seconds"])
    return sorted(spans, key=lambda span: (-span["seconds"], span["from"], span["hash"]))


def draining_spans(draining: Rows, from_ts_us: int | None = None, to_ts_us: int | None = None) -> alt.LayerChart:
    """Returns a line for each draining hash at its position in the hash space, the 800 longest.

    Args:
        draining: rows of `draining` of one subscription.
        from_ts_us: first time of the trace.
        to_ts_us: last time of the trace.
    """
    spans = longest_spans(draining, to_ts_us)[:SPANS_MAX]
    first = min([span["from"] for span in spans] + ([ms(from_ts_us)] if from_ts_us else []), default=0)
    last = max([span["to"] for span in spans] + ([ms(to_ts_us)] if to_ts_us else []), default=1)
    ends = sorted({span["ended_by"] for span in spans})
    base = alt.Chart().encode(
        x=time_axis("from", first, last),
        y=alt.Y("hash:Q", axis=alt.Axis(title="hash", tickCount=4, format="d"), scale=alt.Scale(zero=True)),
        tooltip=[
            alt.Tooltip("hash:Q", format="d"),
            alt.Tooltip("holder:N", title="held by"),
            alt.Tooltip("new_owner:N", title="moved to"),
            alt.Tooltip("entries:Q", title="entries pending"),
            alt.Tooltip("lasted:N", title="for"),
            alt.Tooltip("ended_by:N", title="ended by"),
        ],
    )
    line = base.mark_rule(style="guide", strokeWidth=2).encode(x2="to:T")
    start = base.mark_point(size=34).encode(
        shape=alt.Shape("ended_by:N", scale=alt.Scale(domain=ends), legend=alt.Legend(title=None)),
        color=alt.Color("ended_by:N", scale=alt.Scale(domain=ends)),
    )
    return layered(160, line, start, data=inline(spans))
