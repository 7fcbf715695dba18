"""Events as they travel and wait to be put in order: each column as narrow as its values allow.

Most columns of a packed batch hold few different numbers that lie close together, and some a single one. So they need a
third of the bytes of `Events` while they are exchanged, sorted and merged (docs/TRIED.md).
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.packing.events import DTYPES, Column, Events, row_numbers

_WIDTHS: Final = (0, 1, 2, 4, 8)
_WIDTH_OF_BYTES: Final = (0, 1, 2, 4, 4, 8, 8, 8, 8)
_SEQ: Final = Events._fields.index("seq")
_HEAD: Final = Struct(f"={1 + 2 * len(DTYPES)}q")
"""The number of rows, and the bounds of each column."""


class NarrowColumn(NamedTuple):
    """A column of `Events`."""

    lowest: int  # a lower bound of the values
    highest: int  # an upper bound of the values
    # Of the values from `base`, unsigned, or the values themselves if these need 8 bytes; None: all are equal.
    distances: NDArray[np.integer[Any]] | None

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return _width(self.lowest, self.highest)

    @property
    def base(self) -> int:
        """The value that distances count from; 0 for 8 bytes, which the distances of words of ack sets may exceed."""
        return 0 if self.width == max(_WIDTHS) else self.lowest

    def some(self, start: int, stop: int) -> "NarrowColumn":
        """The column from `start` up to, not including, `stop`, without a copy."""
        return self if self.distances is None else self._replace(distances=self.distances[start:stop])

    def take(self, rows: NDArray[np.intp]) -> "NarrowColumn":
        """The column of `rows`, in their order."""
        return self if self.distances is None else self._replace(distances=self.distances.take(rows))

    def wide(self, rows: int, dtype: type[np.signedinteger[Any]]) -> Column:
        """The values of so many rows."""
        if self.distances is None:
            return np.full(rows, self.lowest, dtype=dtype)
        column = self.distances.astype(dtype)
        # A distance above half of the type's range has become negative, and wraps around to the right value.
        column += dtype(self.base)
        return column


class NarrowEvents(NamedTuple):
    """Rows with the columns of `Events`."""

    rows: int  # their number
    columns: tuple[NarrowColumn, ...]  # in the order of `Events`

    @property
    def first_seq(self) -> int:
        """A lower bound of the seqs."""
        return self.columns[_SEQ].lowest

    def some(self, start: int, stop: int) -> "NarrowEvents":
        """The rows from `start` up to, not including, `stop`, without a copy."""
        return NarrowEvents(stop - start, tuple(column.some(start, stop) for column in self.columns))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "NarrowEvents":
        """The rows that `index` names, in its order."""
        rows = row_numbers(index)
        return NarrowEvents(rows.size, tuple(column.take(rows) for column in self.columns))

    def in_order(self) -> "NarrowEvents":
        """The rows in the order of seq; of equal ones the first stays first."""
        seq = self.columns[_SEQ].distances
        if seq is None or bool((seq[1:] >= seq[:-1]).all()):
            return self
        return self.take(np.argsort(seq, kind="stable"))

    def number_before(self, seq: int) -> int:
        """How many rows, which are in order, stand before `seq`."""
        column = self.columns[_SEQ]
        if seq <= column.lowest:
            return 0
        if column.distances is None or seq > column.highest:
            return self.rows
        return int(np.searchsorted(column.distances, column.distances.dtype.type(seq - column.base)))

    def column(self, name: str) -> Column:
        """The values of one column."""
        return self.columns[Events._fields.index(name)].wide(self.rows, DTYPES[name])

    def wide(self) -> Events:
        """The rows as the replay takes them."""
        return Events(*(c.wide(self.rows, dtype) for c, dtype in zip(self.columns, DTYPES.values(), strict=True)))


def narrow(events: Events) -> NarrowEvents:
    """The same rows."""
    if not events.seq.size:
        return NarrowEvents(0, tuple(NarrowColumn(0, 0, None) for _ in events))
    return narrow_parts(events, np.zeros(1, dtype=np.intp))[0]


def narrow_parts(events: Events, starts: NDArray[np.intp]) -> list[NarrowEvents]:
    """The rows, at least one, from each start up to the next; the first start is 0. All bounds are found at once."""
    stops = np.append(starts[1:], events.seq.size).tolist()
    bounds = [(np.minimum.reduceat(c, starts).tolist(), np.maximum.reduceat(c, starts).tolist()) for c in events]
    return [
        NarrowEvents(
            stop - start,
            tuple(
                _narrow(column, start, stop, lowest[number], highest[number])
                for column, (lowest, highest) in zip(events, bounds, strict=True)
            ),
        )
        for number, (start, stop) in enumerate(zip(starts.tolist(), stops, strict=True))
    ]


def together(parts: Sequence[NarrowEvents]) -> NarrowEvents:
    """The rows of all parts, of which there is at least one, one after the other."""
    if len(parts) == 1:
        return parts[0]
    sizes = [part.rows for part in parts]
    return NarrowEvents(sum(sizes), tuple(_joined(c, sizes) for c in zip(*(p.columns for p in parts), strict=True)))


def encode_events(events: NarrowEvents) -> bytes:
    """The rows as bytes, which are what the exchange moves."""
    head = [events.rows]
    for column in events.columns:
        head += (column.lowest, column.highest)
    columns = (events.columns[number].distances for number, _ in _with_bytes(events.columns))
    return b"".join([_HEAD.pack(*head), *(c.tobytes() for c in columns if c is not None)])


def decode_events(payload: bytes) -> NarrowEvents:
    """The rows that `encode_events` wrote, without a copy."""
    rows, *bounds = _HEAD.unpack_from(payload)
    at = _HEAD.size
    columns = [NarrowColumn(lowest, highest, None) for lowest, highest in zip(bounds[::2], bounds[1::2], strict=True)]
    for number, width in _with_bytes(columns):
        distances = np.frombuffer(payload, dtype=_DTYPE_OF[width], count=rows, offset=at)
        columns[number] = NarrowColumn(columns[number].lowest, columns[number].highest, distances)
        at += width * rows
    return NarrowEvents(rows, tuple(columns))


def _with_bytes(columns: Sequence[NarrowColumn]) -> list[tuple[int, int]]:
    """The numbers and widths of columns with distances, the widest first: so each is aligned to its width."""
    widths = [(number, width) for number, column in enumerate(columns) if (width := column.width)]
    return sorted(widths, key=lambda item: -item[1])


_DTYPE_OF: Final[Mapping[int, "np.dtype[Any]"]] = {
    width: np.dtype(f"{'i' if width == max(_WIDTHS) else 'u'}{width}") for width in _WIDTHS if width
}


def _width(lowest: int, highest: int) -> int:
    return _WIDTH_OF_BYTES[((highest - lowest).bit_length() + 7) // 8]


def _narrow(column: Column, start: int, stop: int, lowest: int, highest: int) -> NarrowColumn:
    if lowest == highest:
        return NarrowColumn(lowest, highest, None)
    width = _width(lowest, highest)
    # A difference that does not fit into the type of the column wraps around, and is right in the unsigned type.
    base = 0 if width == max(_WIDTHS) else column.dtype.type(lowest)
    return NarrowColumn(lowest, highest, (column[start:stop] - base).astype(_DTYPE_OF[width]))


def _joined(parts: Sequence[NarrowColumn], sizes: Sequence[int]) -> NarrowColumn:
    """The values of all parts, each of so many rows."""
    whole = NarrowColumn(min(part.lowest for part in parts), max(part.highest for part in parts), None)
    if not whole.width:
        return whole
    distances = np.empty(sum(sizes), dtype=_DTYPE_OF[whole.width])
    stop = 0
    for part, size in zip(parts, sizes, strict=True):
        start, stop = stop, stop + size
        further = distances.dtype.type(part.base - whole.base)
        if part.distances is None:
            distances[start:stop] = further
        else:
            np.add(part.distances, further, out=distances[start:stop], dtype=distances.dtype)
    return whole._replace(distances=distances)
