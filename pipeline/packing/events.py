"""Events in the form that the kernel takes: columns of integers.

A row of a trace becomes one event, except that an `ack` or `redeliver` with several positions becomes one event for
each position, and an ack set of several words one event for each word (they share their `seq`, and `part` counts them).
Consumers are the trace's numbers. Events have no sticky hash yet, because it depends on the selector in force (contract
1.3).
"""

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed

Column = NDArray[np.signedinteger[Any]]

NO_MURMUR: Final = -2
"""In `Events.murmur`, minus a sticky hash: the hash is in the row, because the key is a digest."""
NEVER_DUE: Final = 2**31 - 1
"""In `Events.word`: a delay of 24 days or more."""


class Code(IntEnum):
    """The kind of an event, and its side (TRACE_FORMAT, "Phases")."""

    PUBLISH = 0
    PUBLISH_DELAYED = 1
    DISPATCH_START = 2
    DISPATCH_END = 3
    ACK_START = 4
    ACK_END = 5
    ACK_PART_START = 6
    ACK_PART_END = 7
    ACK_CUMULATIVE = 8
    REDELIVER = 9
    REDELIVER_ALL = 10
    JOIN_START = 11
    JOIN_END = 12
    LEAVE_START = 13
    LEAVE_END = 14
    RESET_START = 15
    RESET_END = 16
    MARK_DELETE = 17
    FLOW = 18
    OTHER = 19
    GAP = 20
    SETTINGS = 21
    RECORDER = 22  # what a recorder says of itself


def among(*codes: Code) -> NDArray[np.bool_]:
    """For each code whether it is one of these; a look-up in it takes a tenth of the time of `np.isin`."""
    return np.isin(np.arange(max(Code) + 1), codes)


@checkpointed("events")
class Events(NamedTuple):
    """Columns of equal length, in the order of `seq`."""

    code: Column  # a `Code`
    part: Column  # 0, 1, 2, ... for the rows made of one row of the trace.
    seq: Column  # the recorder's number of the row
    ts_us: Column  # wall clock of the broker, microseconds since 1970 UTC
    ledger: Column  # ledger of the position; -1 where there is none
    entry: Column  # entry of the position; -1 where there is none
    consumer: Column  # the trace's number of the consumer; -1 where there is none
    # 31-bit murmur value of the sticky key; -1 where the row has none; -2 - h where the row has a digest of the key and
    # its sticky hash h.
    murmur: Column
    key_id: Column  # 64 bits of the key's other hash
    # For a publish or dispatch the messages in the entry; for a flow the permits; for a partial ack one word of its ack
    # set.
    value: Column
    # For a partial ack the index of that word; for a dispatch the redelivery count, -1 where it is not recorded; for a
    # delayed publish the time from the row to `deliver_at_ms`, in milliseconds (`NEVER_DUE`: as long as a word reaches,
    # or longer); 0 elsewhere.
    word: Column
    # For a partial ack the number of words of the same ack set that follow; 0 elsewhere. In a transaction -1 minus that
    # number, for a publish and for each ack.
    words_left: Column

    def rows(self, start: int, stop: int) -> "Events":
        """The rows from `start` up to, not including, `stop`, without a copy."""
        if start == 0 and stop >= self.seq.size:
            return self
        return Events(*(column[start:stop] for column in self))

    def has(self, *codes: int) -> bool:
        """Whether a row has one of these codes."""
        # To look for a number among bytes is faster than to compare a column.
        here = self.code.astype(np.int8, copy=False).tobytes()
        return any(code in here for code in codes)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "Events":
        """The rows that `index` names, in its order."""
        rows = row_numbers(index)
        return Events(*(column.take(rows) for column in self))


DTYPES: dict[str, type[np.signedinteger[Any]]] = {
    **dict.fromkeys(Events._fields, np.int64),
    "code": np.int8,
    "part": np.int32,
    "word": np.int32,
    "words_left": np.int32,
}


def row_numbers(index: NDArray[np.intp] | NDArray[np.bool_]) -> NDArray[np.intp]:
    """The rows that `index` names; found once for all columns, which `take` then copies faster than an index does."""
    return np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.intp, copy=False)


def no_events() -> Events:
    """Columns without a row."""
    return Events(*(np.empty(0, dtype=DTYPES[name]) for name in Events._fields))


def concatenated(parts: list[Events]) -> Events:
    """The rows of all `parts`, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Events(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else no_events()
