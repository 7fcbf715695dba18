"""Hot keys: their share of the traffic, and how long their hash waited (Q18)."""

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.bars import ranked_bars
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, clipped, records
from dispatch_audit.pipeline.report.wording import duration, share

_KEYS = 10


def hottest(hot_keys: Rows) -> list[Row]:
    """Returns the rows of keys with dispatches, the most dispatched first."""
    rows = [row for row in records(hot_keys) if row["dispatched"] > 0]
    return sorted(rows, key=lambda row: (-row["dispatched"], row["topic"], row["sticky_hash"], row["key"] or ""))


def traffic_of_keys(hot_keys: Rows) -> alt.LayerChart:
    """Returns a bar for each of the ten most dispatched keys.

    Args:
        hot_keys: rows of `hot_keys` of a run.
    """
    bars = [
        {
            "label": f"{_name(row)} · hash {row['sticky_hash']}",
            "value": row["dispatched"],
            "note": f"{_traffic(row)} · waited {duration(row['blocked_seconds'])}",
            "keys_on_hash": row["keys_on_hash"],
        }
        for row in hottest(hot_keys)[:_KEYS]
    ]
    return ranked_bars(bars, "dispatches", [alt.Tooltip("keys_on_hash:Q", title="keys on the hash")])


def _name(row: Row) -> str:
    return "key not recorded" if row["key"] is None else clipped(row["key"])


def _traffic(row: Row) -> str:
    return f"{row['dispatched']:,}" if row["dispatched_share"] is None else share(row["dispatched_share"])
