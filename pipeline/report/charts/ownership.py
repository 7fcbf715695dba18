"""How much of the hash space each consumer owned, over time (Q15, Q17).

Consistent hashing scatters a hundred ranges of each consumer over the hash space, so ranges at their positions would
be a texture. The chart stacks what each consumer owns; the hashes that drain have positions, see `draining`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered, time_axis
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, inline, ms, records

RECTANGLES_MAX = 1_200
# A label fits into a rectangle of this share of the width and of the height, or upright into a narrow one.
_FITS = (0.1, 0.055)
_FITS_UPRIGHT = (0.035, 0.21)


def owned_shares(assignments: Rows, to_ts_us: int | None = None) -> tuple[list[Row], int]:
    """Returns the rectangles of the chart, and the number of assignments too short to be drawn.

    Args:
        assignments: rows of `assignments` of one subscription; rows that stand for several ranges have their size as
            `hashes`.
        to_ts_us: last time of the trace, where open rows are drawn to.
    """
    rows = records(assignments)
    if not rows:
        return [], 0
    last_us = max([to_ts_us or 0, *(row["to_ts_us"] or row["from_ts_us"] for row in rows)])
    changes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        size = row.get("hashes") or row["range_end"] - row["range_start"] + 1
        changes[row["from_ts_us"]].append((row["consumer"], size))
        if row["to_ts_us"] is not None:
            changes[row["to_ts_us"]].append((row["consumer"], -size))
    steps = list(_steps(changes, last_us))
    kept, left_out = _longest(steps)
    space = max((sum(owned.values()) for _, _, owned in steps), default=1) or 1
    names = {row["consumer"]: consumer_label(row["consumer"], row["consumer_name"]) for row in rows}
    return list(_rectangles(kept, space, names)), left_out


_Step = tuple[int, int, Mapping[int, int]]
"""From, to, and the number of hashes of each consumer."""


def _steps(changes: Mapping[int, list[tuple[int, int]]], last_us: int) -> Iterator[_Step]:
    """Yields the assignments one after the other."""
    owned: defaultdict[int, int] = defaultdict(int)
    times = sorted(changes)
    for at_us, next_us in zip(times, [*times[1:], last_us], strict=True):
        for consumer, size in changes[at_us]:
            owned[consumer] += size
        if next_us > at_us:
            yield at_us, next_us, {consumer: size for consumer, size in owned.items() if size > 0}


def _longest(steps: list[_Step]) -> tuple[list[_Step], int]:
    """Returns as many of the longest steps as may be drawn, each up to the next one, and the number of the others."""
    widest = max((len(owned) for _, _, owned in steps), default=1) or 1
    number = max(1, RECTANGLES_MAX // widest)
    by_length = sorted(range(len(steps)), key=lambda at: steps[at][0] - steps[at][1])
    kept = [steps[at] for at in sorted(by_length[:number])]
    ends = [from_us for from_us, _, _ in kept[1:]] + [steps[-1][1]] if kept else []
    return [(step[0], end, step[2]) for step, end in zip(kept, ends, strict=True)], len(steps) - len(kept)


def _rectangles(steps: list[_Step], space: int, names: Mapping[int, str]) -> Iterator[Row]:
    """Yields a rectangle for each consumer while its place in the stack does not change."""
    open_at: dict[int, Row] = {}
    for from_us, to_us, owned in steps:
        bottom = 0.0
        places: dict[int, tuple[float, float]] = {}
        for consumer in sorted(owned):
            top = bottom + owned[consumer] / space
            places[consumer] = (round(bottom, 5), round(top, 5))
            bottom = top
        for consumer in [c for c, rect in open_at.items() if places.get(c) != (rect["bottom"], rect["top"])]:
            yield open_at.pop(consumer)
        for consumer, (low, high) in places.items():
            if consumer in open_at:
                open_at[consumer]["to"] = ms(to_us)
            else:
                open_at[consumer] = {
                    "consumer": names[consumer],
                    "from": ms(from_us),
                    "to": ms(to_us),
                    "bottom": low,
                    "top": high,
                    "share": round(high - low, 5),
                }
    yield from open_at.values()


def ownership_over_time(assignments: Rows, to_ts_us: int | None = None) -> alt.LayerChart:
    """Returns the stacked shares of the hash space, a rectangle for each consumer and assignment.

    Args:
        assignments: rows of `assignments` of one subscription.
        to_ts_us: last time of the trace.
    """
    rects, _ = owned_shares(assignments, to_ts_us)
    first = min((rect["from"] for rect in rects), default=0)
    last = max((rect["to"] for rect in rects), default=1)
    _label(rects, last - first)
    order = list(dict.fromkeys(rect["consumer"] for rect in sorted(rects, key=lambda rect: rect["from"])))
    base = alt.Chart().encode(x=time_axis("from", first, last))
    axis = alt.Axis(format="%", title="hash space", tickCount=4, grid=False)
    y = alt.Y("bottom:Q", axis=axis, scale=alt.Scale(domain=[0, 1]))
    rect = base.mark_rect(fillOpacity=0.22, strokeWidth=1).encode(
        x2="to:T",
        y=y,
        y2="top:Q",
        color=alt.Color("consumer:N", legend=None, sort=order),
        stroke=alt.Stroke("consumer:N", legend=None, sort=order),
        tooltip=[alt.Tooltip("consumer:N"), alt.Tooltip("share:Q", title="share of the hash space", format=".1%")],
    )
    at_middle = base.encode(x=alt.X("middle:T"), y=alt.Y("height:Q"))
    label = at_middle.mark_text(style="label", limit=90).encode(text="label:N")
    upright = at_middle.mark_text(style="label", angle=270, limit=60).encode(text="upright:N")
    return layered(240, rect, label, upright, data=inline(rects))


def _label(rects: list[Row], length: float) -> None:
    """Labels the longest rectangle of each consumer, if a label fits."""
    longest: dict[str, Row] = {}
    for rect in rects:
        rect |= {"label": "", "upright": "", "height": (rect["bottom"] + rect["top"]) / 2}
        rect["middle"] = (rect["from"] + rect["to"]) / 2
        before = longest.get(rect["consumer"])
        if before is None or rect["to"] - rect["from"] > before["to"] - before["from"]:
            longest[rect["consumer"]] = rect
    for rect in longest.values():
        width = (rect["to"] - rect["from"]) / max(length, 1)
        if width > _FITS[0] and rect["share"] > _FITS[1]:
            rect["label"] = rect["consumer"]
        elif width > _FITS_UPRIGHT[0] and rect["share"] > _FITS_UPRIGHT[1]:
            rect["upright"] = rect["consumer"]
