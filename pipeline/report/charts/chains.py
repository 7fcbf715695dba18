"""Chains of waiting: A waits for B, which waits for C (Q13)."""

from collections import defaultdict
from collections.abc import Iterator

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.axes import layered
from dispatch_audit.pipeline.report.charts.parts.blocking_rows import (
    blocking_side,
    end_us,
    last_us_of,
    of_widest_scope,
    waiting_side,
)
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, cost, inline, subscription_of

_CHAINS = 6
_LINKS = 5
# Of pairs that waited hundreds of times the costliest intervals stand for all: pairs grow with the square.
_INTERVALS = 400


def chains_of(blocking: Rows) -> list[list[Row]]:
    """Returns chains of two or more intervals of waiting that overlapped, the costliest first.

    Each link waits for the consumer that the next one is about. A chain ends at a consumer that waits for nobody else;
    a last interval with this consumer on both sides says why (no permits, for instance).
    """
    rows = [row for row in of_widest_scope(blocking) if row["blocking_consumer"] is not None]
    rows = sorted(rows, key=lambda row: (-row["message_seconds"], row["from_ts_us"]))[:_INTERVALS]
    last_us = last_us_of(rows)
    of_consumer: defaultdict[tuple[tuple[str, str], int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["scope"] != "subscription" and row["consumer"] is not None:
            of_consumer[subscription_of(row), row["consumer"]].append(row)
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if _is_root(row):
            continue
        for chain in _extended([row], of_consumer, last_us):
            if len(chain) > 1:
                found.setdefault(tuple(f"{waiting_side(link)} {link['cause']}" for link in chain), chain)
    chains = sorted(found.values(), key=lambda chain: (-len(chain), -chain[0]["message_seconds"]))
    return chains[:_CHAINS]


def _is_root(row: Row) -> bool:
    """Whether a consumer waits for itself, so that the interval is the root of a chain."""
    return bool(row["consumer"] == row["blocking_consumer"] and row["scope"] != "subscription")


def _extended(
    chain: list[Row], of_consumer: dict[tuple[tuple[str, str], int], list[Row]], last_us: int
) -> Iterator[list[Row]]:
    """Yields the chain with the costliest interval of each next consumer after it, as far as it goes."""
    end = chain[-1]
    seen = {link["consumer"] for link in chain if link["scope"] != "subscription"}
    if not _is_root(end) and len(chain) < _LINKS and end["blocking_consumer"] not in seen:
        for link in of_consumer.get((subscription_of(end), end["blocking_consumer"]), []):
            if link["from_ts_us"] <= end_us(end, last_us) and end["from_ts_us"] <= end_us(link, last_us):
                yield from _extended([*chain, link], of_consumer, last_us)
                return
    yield chain


def blocking_chains(blocking: Rows) -> alt.LayerChart:
    """Returns a line for each chain: who waited at the left, and whom all waited for at the right.

    Args:
        blocking: rows of `blocking` of a run.
    """
    rows: list[Row] = []
    for rank, chain in enumerate(chains_of(blocking)):
        rows += _marks(rank, chain)
    last_at = max((row["at"] for row in rows), default=1)
    base = alt.Chart().encode(
        x=alt.X("at:Q", axis=None, scale=alt.Scale(domain=[0, last_at], nice=False, padding=8)),
        y=alt.Y("chain:O", axis=None),
        tooltip=[alt.Tooltip("text:N", title=" "), alt.Tooltip("cost:N", title=" ")],
    )

    def marks(condition: str) -> alt.Chart:
        chart: alt.Chart = base.transform_filter(condition)
        return chart

    edge = marks("datum.what == 'link'").mark_rule(style="guide", strokeWidth=2).encode(x2="to:Q")
    middle = alt.X("middle:Q", axis=None)
    arrow = (
        marks("datum.what == 'link'").mark_point(style="guide", shape="triangle-right", filled=True).encode(x=middle)
    )
    cause = marks("datum.what == 'link'").mark_text(style="quiet", dy=13).encode(x=middle, text="text:N")
    waiting = marks("datum.what == 'node'").mark_point(shape="circle", size=90)
    root = marks("datum.what == 'root'").mark_point(style="wrong", shape="square", size=110)
    names = [
        marks(f"datum.side == '{side}'").mark_text(style="label", align=side, dy=-13, limit=150).encode(text="text:N")
        for side in ("left", "center", "right")
    ]
    why = marks("datum.what == 'root'").mark_text(style="wrong_label", align="right", dy=15).encode(text="why:N")
    layers = (edge, arrow, cause, waiting, root, *names, why)
    return layered(alt.Step(62), *layers, data=inline(rows))


def _marks(rank: int, chain: list[Row]) -> Iterator[Row]:
    """Yields the links of a chain and the consumers at their ends, the last of which is the root."""
    last = chain[-1]
    links = chain[:-1] if _is_root(last) else chain
    names = [waiting_side(link) for link in links] + [blocking_side(links[-1])]
    for at, link in enumerate(links):
        seconds = f"{cost(link['message_seconds'])} message-seconds"
        mark = {"what": "link", "chain": rank, "at": at, "to": at + 1, "middle": at + 0.5}
        yield {**mark, "text": link["cause"], "cost": seconds}
    for at, name in enumerate(names):
        is_last = at == len(links)
        side = "left" if at == 0 else "right" if is_last else "center"
        why = last["cause"] if is_last and _is_root(last) else ""
        yield {"what": "root" if is_last else "node", "chain": rank, "at": at, "text": name, "side": side, "why": why}
