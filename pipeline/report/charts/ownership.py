"""How much of the hash space each consumer owned, over time (Q15, Q17).

Consistent hashing scatters a hundred ranges of each consumer over the hash space, so ranges at their positions would
be a texture, and in a stack every share would move up and down with each join and leave. The chart has a lane for each
consumer; the hashes that drain have positions, see `draining`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered, time_axis
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, consumer_label, inline, ms, records

SPANS_MAX = 1_200
LANES_MAX = 30
# Pixels of a lane, and of a line in it without and with the whole hash space.
_LANE = 20
_THICK = (1, 18)


def owned_shares(assignments: Rows, to_ts_us: int | None = None) -> tuple[list[Row], int]:
    """Returns the spans of the chart, each of one consumer and share, and the number of assignments left out as short.

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
    return list(_spans(kept, space, names)), left_out


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
    number = max(1, SPANS_MAX // widest)
    by_length = sorted(range(len(steps)), key=lambda at: steps[at][0] - steps[at][1])
    kept = [steps[at] for at in sorted(by_length[:number])]
    ends = [from_us for from_us, _, _ in kept[1:]] + [steps[-1][1]] if kept else []
    return [(step[0], end, step[2]) for step, end in zip(kept, ends, strict=True)], len(steps) - len(kept)


def _spans(steps: list[_Step], space: int, names: Mapping[int, str]) -> Iterator[Row]:
    """Yields a span for each consumer while its share does not change."""
    open_at: dict[int, Row] = {}
    for from_us, to_us, owned in steps:
        shares = {consumer: round(size / space, 5) for consumer, size in owned.items()}
        for consumer in [c for c, span in open_at.items() if shares.get(c) != span["share"]]:
            yield open_at.pop(consumer)
        for consumer in sorted(shares):
            if consumer in open_at:
                open_at[consumer]["to"] = ms(to_us)
            else:
                open_at[consumer] = {
                    "consumer": names[consumer],
                    "from": ms(from_us),
                    "to": ms(to_us),
                    "share": shares[consumer],
                }
    yield from open_at.values()


def largest_owners(spans: Rows) -> list[str]:
    """Returns the consumers of the chart in the order of their lanes: the first that owned something stands on top.

    Args:
        spans: of `owned_shares`.
    """
    rows = sorted(records(spans), key=lambda span: span["from"])
    owned: defaultdict[str, float] = defaultdict(float)
    for span in rows:
        owned[span["consumer"]] += span["share"] * (span["to"] - span["from"])
    largest = set(sorted(owned, key=lambda consumer: -owned[consumer])[:LANES_MAX])
    return [consumer for consumer in owned if consumer in largest]


def ownership_over_time(assignments: Rows, to_ts_us: int | None = None) -> alt.LayerChart:
    """Returns a lane for each consumer, with a line as thick as the share that it owned, where it owned one.

    Args:
        assignments: rows of `assignments` of one subscription.
        to_ts_us: last time of the trace.
    """
    spans, _ = owned_shares(assignments, to_ts_us)
    first = min((span["from"] for span in spans), default=0)
    last = max((span["to"] for span in spans), default=1)
    lanes = largest_owners(spans)
    shown = [span for span in spans if span["consumer"] in lanes]
    base = alt.Chart().encode(y=alt.Y("consumer:N", sort=lanes, axis=alt.Axis(title=None, grid=True)))
    line = base.mark_rule(strokeCap="butt").encode(
        x=time_axis("from", first, last),
        x2="to:T",
        size=alt.Size("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=_THICK)),
        color=alt.Color("consumer:N", legend=None, sort=lanes),
        tooltip=[alt.Tooltip("consumer:N"), alt.Tooltip("share:Q", title="share of the hash space", format=".1%")],
    )
    return layered(alt.Step(_LANE), line, data=inline(shown))
