"""What consumers are called, and other words that rows of several tables share."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from pipeline.replay.replayed import Stay
from pipeline.replay.state import NOBODY, UNKNOWN

Rows: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""Rows of one table by column; all of them are equally long, and there is none without rows."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def columns_of(rows: Rows) -> Columns:
    """Rows by column; rows may leave out columns that others fill."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


class Names:
    """Consumers by their place in the dispatcher's state."""

    def __init__(self, numbers: Sequence[int], stays: Mapping[int, Stay]) -> None:
        """Takes the trace's numbers in the order of their places, and what is known of each consumer."""
        self._numbers = numbers
        self._stays = stays

    def number(self, place: int) -> int | None:
        """The trace's number; None for nobody."""
        return None if place == NOBODY else self._numbers[place]

    def name(self, place: int) -> str | None:
        """The client's name; None for nobody."""
        return None if place == NOBODY else self._stays[self._numbers[place]].row.name

    def spoken(self, place: int) -> str:
        """How a text calls it: the number tells equal names apart (Q19)."""
        return "nobody" if place == NOBODY else f"{self.name(place)} (consumer {self.number(place)})"


def position(ledger: int, entry: int) -> str:
    """A position as Pulsar writes it."""
    return f"{ledger}:{entry}"


def or_none(value: int) -> int | None:
    """A number of the core, where UNKNOWN means that there is none."""
    return None if value == UNKNOWN else int(value)


def moment(ts_us: int) -> str:
    """A time of the trace as people write it, UTC with microseconds."""
    return (_EPOCH + timedelta(microseconds=int(ts_us))).strftime("%Y-%m-%d %H:%M:%S.%f")
