"""What each join and leave moved, and how much of it had to drain (Q16)."""

from collections import Counter
from typing import Any

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered, time_axis
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, clipped, inline, ms, records

CHANGES_MAX = 400


def changes_of(assignments: Rows, draining: Rows) -> list[Row]:
    """Returns each membership change that moved hashes, in order.

    Columns: epoch, change, kind (join or leave), at (ms), moved (hashes), share (of the hash space), drained (hashes).

    Args:
        assignments: rows of `assignments` of one subscription.
        draining: its rows of `draining`.
    """
    drained = Counter((row["broker"], row["from_seq"]) for row in records(draining))
    rows = records(assignments)
    space = (
        1 + max((row["range_end"] for row in rows), default=0) - min((row["range_start"] for row in rows), default=0)
    )
    found: dict[tuple[Any, int], Row] = {}
    for row in rows:
        found.setdefault(
            (row["broker"], row["from_seq"]),
            {
                "epoch": row["epoch"],
                "change": clipped(row["change"], 40),
                "kind": "join" if row["change"].startswith("join") else "leave",
                "at": ms(row["from_ts_us"]),
                "moved": row["hashes_moved"],
                "share": min(1.0, row["hashes_moved"] / space),
                "drained": drained[row["broker"], row["from_seq"]],
            },
        )
    return sorted(found.values(), key=lambda change: (change["epoch"], change["at"]))


def assignment_churn(assignments: Rows, draining: Rows, to_ts_us: int | None = None) -> alt.LayerChart:
    """Returns a stem for each join and leave, as high as the share of the hash space that it moved.

    The number above a stem is that of the hashes that had to drain. The 400 changes that moved most are drawn.

    Args:
        assignments: rows of `assignments` of one subscription.
        draining: its rows of `draining`.
        to_ts_us: last time of the trace.
    """
    changes = sorted(changes_of(assignments, draining), key=lambda change: -change["moved"])[:CHANGES_MAX]
    for change in changes:
        change["label"] = str(change["drained"]) if change["drained"] else ""
    times = [change["at"] for change in changes] or [0]
    base = alt.Chart().encode(
        x=time_axis("at", min(times), max([*times, ms(to_ts_us or 0)])),
        y=alt.Y(
            "share:Q", axis=alt.Axis(format="%", title="hash space moved", tickCount=4), scale=alt.Scale(domainMin=0)
        ),
        tooltip=[
            alt.Tooltip("change:N"),
            alt.Tooltip("epoch:Q"),
            alt.Tooltip("moved:Q", title="hashes moved", format=","),
            alt.Tooltip("drained:Q", title="had to drain", format=","),
        ],
    )
    kinds = ["join", "leave"]
    stem = base.mark_rule(style="guide").encode(y2=alt.datum(0))
    head = base.mark_point(size=55).encode(
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["triangle-up", "triangle-down"])),
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds)),
    )
    label = base.mark_text(style="label", dy=-11).encode(text="label:N")
    return layered(150, stem, head, label, data=inline(changes))
