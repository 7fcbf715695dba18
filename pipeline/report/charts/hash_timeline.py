"""One hash around a finding: who owned it, who held entries, who joined or left, and the dispatch of the finding.

The axis is `seq`, the recorder's order of the rows: it is exact, and tables name the events of a finding by it.
"""

import re
from collections.abc import Mapping
from typing import Any

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, clipped, consumer_label, inline, records

# Room beside the first and the last event, as a share of the time between them.
_MARGIN = 0.12
_CHANGES_MAX = 12
# Rules whose findings say that the earlier event left an entry pending at its consumer, or an older entry waiting.
_HELD = ("single_holder", "early_duplicate")
_OVERTAKEN = ("replay_overtaken", "redelivery_order")
_WAITING = "waiting"
_EVENT = re.compile(r"seq (?P<seq>\d+)(?: of (?P<broker>.+?))?: (?P<text>.+)", re.DOTALL)


def earlier_event(finding: Mapping[str, Any]) -> tuple[int, str] | None:
    """Returns the oldest event of the evidence before the finding, as its seq and what happened.

    None: the evidence has none of the recorder that numbered the finding.
    """
    for event in finding["evidence"]:
        found = _EVENT.fullmatch(event)
        if found and found["broker"] in (None, finding["broker"]) and int(found["seq"]) < finding["seq"]:
            return int(found["seq"]), found["text"]
    return None


def hash_story(finding: Mapping[str, Any], assignments: Rows, draining: Rows = ()) -> list[Row]:
    """Returns what the timeline shows of a finding, a row a mark.

    Columns: what (owns, holds, waits, drains, change, event, finding), lane (a consumer, or where entries wait), from
    and to (seq), label.

    Args:
        finding: a row of `violations`.
        assignments: rows of `assignments` of the ranges that hold the hash.
        draining: rows of `draining` of the hash.
    """
    seq = finding["seq"]
    since, event = earlier_event(finding) or (seq, "")
    margin = max(4, int((seq - since) * _MARGIN))
    window = (since - margin, seq + margin)
    receiver = consumer_label(finding["consumer"], finding["consumer_name"])
    owned = [row for row in records(assignments) if _meets(row, window)]
    rows = [
        _mark("owns", consumer_label(row["consumer"], row["consumer_name"]), *_within(row, window), "owns the hash")
        for row in owned
    ]
    changes = {row["from_seq"]: row["change"] for row in owned if since < row["from_seq"] <= seq}
    rows += [
        _mark("change", receiver, at, at, clipped(change, 32)) for at, change in sorted(changes.items())[-_CHANGES_MAX:]
    ]
    rows += [
        _mark("drains", consumer_label(row["holder"], row["holder_name"]), *_within(row, window), "drains")
        for row in records(draining)
        if _meets(row, window)
    ]
    if event:
        is_with_consumer = finding["other_consumer"] is not None
        other = consumer_label(finding["other_consumer"], finding["other_consumer_name"])
        lane = other if is_with_consumer else _WAITING
        if finding["rule"] in _HELD and not any("acknowledged" in text for text in finding["evidence"]):
            rows.append(_mark("holds", lane, since, seq, "holds an unacknowledged entry"))
        elif finding["rule"] in _OVERTAKEN and not is_with_consumer:
            rows.append(_mark("waits", lane, since, seq, "the older entry waits"))
        rows.append(_mark("event", lane, since, since, clipped(event, 40)))
    rows.append(_mark("finding", receiver, seq, seq, f"{finding['ledger_id']}:{finding['entry_id']} at seq {seq:,}"))
    return rows


def _mark(what: str, lane: str, begin: int, end: int, label: str) -> Row:
    return {"what": what, "lane": lane, "from": begin, "to": end, "label": label}


def _meets(row: Row, window: tuple[int, int]) -> bool:
    return bool(row["from_seq"] <= window[1] and (row["to_seq"] is None or row["to_seq"] >= window[0]))


def _within(row: Row, window: tuple[int, int]) -> tuple[int, int]:
    end = window[1] if row["to_seq"] is None else min(row["to_seq"], window[1])
    # A frame of pandas has floats where a column has NULL.
    return int(max(row["from_seq"], window[0])), int(end)


def hash_timeline(story: Rows) -> alt.LayerChart:
    """Returns a lane for each consumer that had to do with the hash around a finding.

    Args:
        story: rows of `hash_story`.
    """
    at_seq = alt.Chart().encode(
        x=alt.X(
            "from:Q",
            axis=alt.Axis(title="seq", format=",d", tickCount=5, grid=False),
            scale=alt.Scale(zero=False, nice=False),
        ),
        tooltip=[alt.Tooltip("lane:N", title="consumer"), alt.Tooltip("what:N"), alt.Tooltip("label:N", title=" ")],
    )

    in_lane = at_seq.encode(y=alt.Y("lane:N", title=None, axis=alt.Axis(grid=True, labelPadding=6)))

    def marks(what: str, among: alt.Chart = in_lane) -> alt.Chart:
        chart: alt.Chart = among.transform_filter(f"datum.what == '{what}'")
        return chart

    span = alt.X2("to:Q")
    owns = marks("owns").mark_bar(height=16, fillOpacity=0.16, stroke=None, tooltip=True).encode(x2=span)
    drains = marks("drains").mark_bar(style="second", height=16, fillOpacity=0.35).encode(x2=span)
    holds = marks("holds").mark_rule(strokeWidth=3).encode(x2=span)
    change = marks("change", at_seq).mark_rule(style="guide", strokeDash=[3, 3])
    changed = marks("change", at_seq).mark_text(style="quiet", align="right", baseline="bottom", dx=4, limit=140)
    changed = changed.encode(y=alt.value(-2), text="label:N")
    waits = marks("waits").mark_rule(strokeWidth=2, strokeDash=[2, 3])
    event = marks("event").mark_point(size=70, shape="circle")
    name = marks("event").mark_text(style="label", align="left", dx=-3, dy=15, limit=220).encode(text="label:N")
    finding = marks("finding").mark_point(style="wrong", size=130, shape="cross", angle=45)
    at_issue = (
        marks("finding").mark_text(style="wrong_label", align="right", dx=-9, dy=-10, limit=170).encode(text="label:N")
    )
    layers = (owns, drains, holds, waits, change, changed, event, name, finding, at_issue)
    return layered(alt.Step(42), *layers, data=inline(records(story)))
