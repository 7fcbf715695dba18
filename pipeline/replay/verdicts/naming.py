"""Names of consumers, and values that several tables write alike."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult

Rows: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Mapping[str, Sequence[Any] | NDArray[Any]]
"""Rows of one table by column; all columns have the same length; without rows the mapping is empty."""


def columns_of(rows: Rows) -> Columns:
    """The rows by column; a column that a row leaves out is None there."""
    first = tuple(rows[0]) if rows else ()
    if all(tuple(row) == first for row in rows):
        # The usual case: taking the values of whole rows is more than twice as fast.
        return dict(zip(first, zip(*(row.values() for row in rows), strict=True), strict=True))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


class Names:
    """The names and numbers of consumers, by their indexes in the dispatcher's state."""

    def __init__(self, found: ReplayResult, recorders: Recorders) -> None:
        """Takes the replay of their subscription and the recorders of its topic."""
        self._numbers = found.dispatcher.consumers.numbers
        self._stays = found.membership.stays
        self._recorders = recorders

    def number(self, index: int) -> int | None:
        """The number that the recorder gave; None for NOBODY."""
        return None if index == NOBODY else self._recorders.consumer(self._numbers[index])

    def name(self, index: int) -> str | None:
        """The name that the client gave; None for NOBODY."""
        return None if index == NOBODY else self._stays[self._numbers[index]].row.name

    def columns(self, column: str, index: int) -> dict[str, Any]:
        """The columns with the number and the name of a consumer."""
        return {column: self.number(index), f"{column}_name": self.name(index)}

    def spoken(self, index: int) -> str:
        """The name and number of a consumer for a text; the number distinguishes equal names (Q19)."""
        if index == NOBODY:
            return "nobody"
        return f"{self.name(index)} (consumer {self._recorders.spoken_consumer(self._numbers[index])})"

    def seq(self, seq: int) -> str:
        """The seq of a row for a text, with the recorder if there are several."""
        return self._recorders.spoken(seq)

    def own_seq(self, seq: int) -> int:
        """The recorder's own seq of a row."""
        return self._recorders.seq(seq)


def position(ledger: int, entry: int) -> str:
    """A position as Pulsar writes it, `ledger:entry`."""
    return f"{ledger}:{entry}"


def or_none(value: int) -> int | None:
    """A number of the kernel as an int, or None for UNKNOWN."""
    return None if value == UNKNOWN else int(value)
