"""Who blocked whom, ranked by message-seconds (Q8, Q14)."""

from collections import defaultdict

import altair as alt

from dispatch_audit.pipeline.report.charts.parts.bars import ranked_bars
from dispatch_audit.pipeline.report.charts.parts.blocking_rows import blocking_side, of_widest_scope, waiting_side
from dispatch_audit.pipeline.report.charts.parts.data import Row, Rows, cost

_PAIRS = 10


def ranked_pairs(blocking: Rows) -> list[Row]:
    """Returns each pair of who blocked and who waited, by cause, the costliest first.

    Columns: blocker, waiter, cause, intervals, message_seconds. Waiting that no consumer caused has no pair.
    """
    totals: defaultdict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for row in of_widest_scope(blocking):
        if row["blocking_consumer"] is not None:
            total = totals[blocking_side(row), waiting_side(row), row["cause"]]
            total[0] += 1
            total[1] += row["message_seconds"]
    pairs = [
        {"blocker": blocker, "waiter": waiter, "cause": cause, "intervals": int(number), "message_seconds": seconds}
        for (blocker, waiter, cause), (number, seconds) in totals.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair["message_seconds"], pair["blocker"], pair["waiter"], pair["cause"]))


def who_blocked_whom(blocking: Rows) -> alt.LayerChart:
    """Returns a bar for each pair of consumers with their cause, the ten costliest.

    Args:
        blocking: rows of `blocking` of a run.
    """
    bars = [
        {
            "label": f"{pair['blocker']} held up {_waiter(pair)}",
            "value": pair["message_seconds"],
            "note": f"{cost(pair['message_seconds'])} · {pair['cause']}",
            "intervals": pair["intervals"],
        }
        for pair in ranked_pairs(blocking)[:_PAIRS]
    ]
    return ranked_bars(bars, "message-seconds", [alt.Tooltip("intervals:Q")])


def _waiter(pair: Row) -> str:
    return "its own hashes" if pair["waiter"] == pair["blocker"] else pair["waiter"]
