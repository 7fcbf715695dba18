"""A comparison of dispatchers as a table in Markdown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dispatch_audit.pipeline.simulate.measures import MeasuresRow, idle_share


def _seconds(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "-" if row[name] is None else f"{row[name]:,.1f}"


def _count(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: f"{row[name]:,}" if name in row else "-"


_COLUMNS: Final[Sequence[tuple[str, Callable[[Mapping[str, Any]], str]]]] = (
    ("dispatcher", lambda row: str(row["variant"])),
    ("violations", _count("violations")),
    ("known bugs", _count("known_bugs")),
    ("blocked message-seconds", lambda row: _seconds("blocked_message_s")(row) if "blocked_message_s" in row else "-"),
    ("first stall, s", _seconds("stalled_at_s")),
    ("no progress, s", _seconds("no_progress_s")),
    ("largest replay", _count("replay_peak")),
    ("most ack holes", _count("ack_holes_peak")),
    ("messages overflowed", _count("overflowed")),
    ("MB overflowed", lambda row: f"{row['overflowed_bytes'] / 1e6:,.1f}"),
    ("read in vain", lambda row: f"{row['entries_read_in_vain'] / max(row['entries_read'], 1):.1%}"),
    ("sent again", _count("duplicates")),
    ("never sent", _count("never_sent")),
    ("makespan / bound, s", lambda row: f"{row['makespan_s']:,.1f} / {row['makespan_bound_s']:,.1f}"),
    ("idle", lambda row: f"{idle_share(row):.1%}"),
)


def markdown(rows: Sequence[MeasuresRow]) -> str:
    """A table with a row for each dispatcher; each has `variant`, and the audit's measures if it was audited."""
    head = [name for name, _ in _COLUMNS]
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *([cell(row) for _, cell in _COLUMNS] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def sentence(names: Sequence[str], smallest: int | None, tried: Mapping[int, float]) -> str:
    """The result of a search for the smallest setting without a stall."""
    what = " and ".join(names)
    if smallest is None:
        return f"No value of {what} up to {max(tried):,} removes the stall."
    return f"The smallest {what} without a stall: {smallest:,} (tried: {', '.join(f'{v:,}' for v in sorted(tried))})."
