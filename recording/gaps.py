"""Counts rows that a recorder had to drop, and writes them as rows of event `gap`.

Source: docs/TRACE_FORMAT.md, event `gap`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

Row = Mapping[str, Any]


@dataclass
class _Dropped:
    ts_us: int
    first_seq: int
    last_seq: int
    rows: int


class Gaps:
    """The rows that were dropped since the last time that they were taken, by topic and subscription."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._dropped: dict[tuple[str, str | None], _Dropped] = {}

    def add(self, row: Row, rows: int = 1, last_seq: int | None = None) -> None:
        """Counts a dropped row, or the rows of a gap (their number, and the last seq)."""
        seq = row["seq"]
        last = seq if last_seq is None else last_seq
        with self._lock:
            found = self._dropped.setdefault(
                (row["topic"], row.get("subscription")), _Dropped(row["ts_us"], seq, last, 0)
            )
            if seq < found.first_seq:
                found.first_seq, found.ts_us = seq, row["ts_us"]
            found.last_seq = max(found.last_seq, last)
            found.rows += rows

    def take(self) -> list[dict[str, Any]]:
        """Returns a row for each topic and subscription, and forgets them."""
        if not self._dropped:
            return []
        with self._lock:
            dropped, self._dropped = self._dropped, {}
        return [_row(*group, found) for group, found in dropped.items()]


def _row(topic: str, subscription: str | None, found: _Dropped) -> dict[str, Any]:
    row = {
        "event": "gap",
        "seq": found.first_seq,
        "ts_us": found.ts_us,
        "topic": topic,
        "seq_end": found.last_seq,
        "dropped": found.rows,
    }
    return row if subscription is None else {**row, "subscription": subscription}
