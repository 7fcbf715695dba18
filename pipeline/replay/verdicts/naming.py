"""What consumers are called, and other words that rows of several tables share."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pipeline.replay.recorders.recorders import ONE, Recorders
from pipeline.replay.state.state import NOBODY, UNKNOWN
from pipeline.replay.subscription.result import Stay

Rows: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""Rows of one table by column; all of them are equally long, and there is none without rows."""


def columns_of(rows: Rows) -> Columns:
    """Rows by column; rows may leave out columns that others fill."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


class Names:
    """Consumers by their place in the dispatcher's state."""

    def __init__(self, numbers: Sequence[int], stays: Mapping[int, Stay], recorders: Recorders = ONE) -> None:
        """Takes the replay's numbers in the order of their places, what is known of each consumer, and who recorded."""
        self._numbers = numbers
        self._stays = stays
        self._recorders = recorders

    def number(self, place: int) -> int | None:
        """The recorder's number; None for nobody."""
        return None if place == NOBODY else self._recorders.consumer(self._numbers[place])

    def name(self, place: int) -> str | None:
        """The client's name; None for nobody."""
        return None if place == NOBODY else self._stays[self._numbers[place]].row.name

    def spoken(self, place: int) -> str:
        """How a text calls it: the number distinguishes equal names (Q19)."""
        return "nobody" if place == NOBODY else f"{self.name(place)} (consumer {self._numbered(place)})"

    def seq(self, seq: int) -> str:
        """How a text calls a row: by its seq, and its recorder where there are several."""
        return self._recorders.spoken(seq)

    def own_seq(self, seq: int) -> int:
        """The recorder's own seq of a row."""
        return self._recorders.seq(seq)

    def _numbered(self, place: int) -> str:
        return self._recorders.spoken_consumer(self._numbers[place])


def position(ledger: int, entry: int) -> str:
    """A position as Pulsar writes it."""
    return f"{ledger}:{entry}"


def or_none(value: int) -> int | None:
    """A number of the core, where UNKNOWN means that there is none."""
    return None if value == UNKNOWN else int(value)
