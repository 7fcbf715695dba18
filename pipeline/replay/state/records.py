"""Arrays of integer records, which compiled functions can take and the interpreter can show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed_record
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled

Ints = NDArray[np.int64]
Records: TypeAlias = "np.recarray[Any, Any]"

_N = TypeVar("_N", bound=NamedTuple)

NOBODY: Final = -1
UNKNOWN: Final = -1


class EntryPosition(NamedTuple):
    """The position of an entry."""

    ledger: int
    entry: int


class Queue(NamedTuple):
    """The slots of the first and the last entry of a chain."""

    first: int
    last: int


class Stopwatch(NamedTuple):
    """A time that is added up: since when it runs, UNKNOWN: it does not, and how long it ran before."""

    since_ts: int
    total_us: int


NOWHERE: Final = EntryPosition(UNKNOWN, UNKNOWN)
FIRST: Final = EntryPosition(0, 0)
NO_QUEUE: Final = Queue(NOBODY, NOBODY)
NO_POINT: Final = TracePoint(UNKNOWN, UNKNOWN)
BEGINNING: Final = TracePoint(0, 0)
STOPPED: Final = Stopwatch(UNKNOWN, 0)

_Value: TypeAlias = "int | NamedTuple"
_NONE: Final[Mapping[str, _Value]] = {}


@compiled
def position_of(record: Any) -> tuple[int, int]:
    """The position that a record holds, to be compared with others: they order as pairs."""
    return record.ledger, record.entry


@compiled
def set_position(record: Any, position: Any) -> None:
    """Sets the position that a record holds to that of another record, or an `EntryPosition`."""
    record.ledger = position.ledger
    record.entry = position.entry


@compiled
def set_point(record: Any, point: Any) -> None:
    """Sets the point that a record holds to that of a `TracePoint`, or of a dispatch."""
    record.seq = point.seq
    record.ts_us = point.ts_us


@compiled
def run_while(watch: Any, is_on: bool, ts: int) -> None:
    """Lets a stopwatch that a record holds run from a time on, or not."""
    if not is_on and watch.since_ts != UNKNOWN:
        watch.total_us += ts - watch.since_ts
        watch.since_ts = UNKNOWN
    elif is_on and watch.since_ts == UNKNOWN:
        watch.since_ts = ts


@compiled
def ran_us(watch: Any, ts: int) -> int:
    """How long a stopwatch has run by a time."""
    return int(watch.total_us + (ts - watch.since_ts if watch.since_ts != UNKNOWN else 0))


class RecordKind:
    """A kind of records: its fields, their first values, and which of them last when records begin anew."""

    __slots__ = ("_first", "_lasting", "dtype")

    def __init__(
        self,
        name: str,
        fields: Mapping[str, _Value],
        *,
        lasting: Mapping[str, _Value] = _NONE,
        narrow: Mapping[str, _Value] = _NONE,
    ) -> None:
        """Takes fields and their first values; those that are not lasting begin anew, as after a gap.

        `name` is that of the kind in checkpoints. A value of several fields is a record in the record.
        """
        wide = {**fields, **lasting}
        columns = [(of, _type(value, np.int64)) for of, value in wide.items()]
        dtype = np.dtype([*columns, *((of, _type(value, np.int32)) for of, value in narrow.items())])
        self.dtype = checkpointed_record(name, dtype)  # the fields, in 64 bits, or in 32 if they are narrow
        self._first = np.array([(*wide.values(), *narrow.values())], dtype=self.dtype)
        self._lasting = (*lasting,)

    def new(self, count: int) -> Records:
        """Records with the first values."""
        return np.repeat(self._first, count).view(np.recarray)

    def free(self, slots: int) -> Records:
        """Free slots: every field is UNKNOWN; the first field marks a slot as free."""
        return np.full(slots * self.dtype.itemsize, -1, dtype=np.int8).view(self.dtype).view(np.recarray)

    def anew(self, before: Records) -> Records:
        """Records with the first values but for what lasts, as after a gap, in which rows of entries are missing."""
        found = self.new(len(before))
        for name in self._lasting:
            found[name] = before[name]
        return found


def _type(value: _Value, number: type[np.integer[Any]]) -> Any:
    return number if isinstance(value, int) else np.dtype([(of, number) for of in value._fields])


def record_of(records: Any, kind: RecordKind, at: int = 0) -> Any:
    """One of the records, to be read and set by name: record arrays look up each name in Python, which is slow."""
    return np.frombuffer(records, kind.dtype)[at]


def named_record(name: str, of: type[NamedTuple]) -> "np.dtype[np.void]":
    """Records with the fields of a class, in 64 bits; `name` is that of the kind in checkpoints."""
    return checkpointed_record(name, np.dtype([(field, np.int64) for field in of._fields]))


def plain(records: NDArray[Any], of: type[_N]) -> Iterator[_N]:
    """The records as objects of their class: plain numbers are read faster than the fields of a record of numpy."""
    return map(of._make, records.view(np.ndarray).tolist())


def together(parts: Sequence[Records]) -> Records:
    """The records of all parts, one after the other, as numpy would take them together field by field."""
    raw = np.concatenate([part.view(np.ndarray).view(np.uint8) for part in parts])
    records: Records = raw.view(parts[0].dtype).view(np.recarray)
    return records


def first_of(records: Records, count: int) -> Records:
    """A copy of the first records; a record array that is cut by itself looks up its type twice on the way."""
    found: Records = records.view(np.ndarray)[:count].copy().view(np.recarray)
    return found


def chosen(records: Records, index: NDArray[Any]) -> Records:
    """The records that an index or a mask selects; numpy copies records field by field, and this copies them whole."""
    whole = records.view(np.ndarray).view(np.dtype((np.void, records.dtype.itemsize)))
    found: Records = whole[index].view(records.dtype).view(np.recarray)
    return found
