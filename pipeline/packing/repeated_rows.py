"""Drops repeated rows and refuses rows that contradict each other: at most one row of each seq is used.

A recorder gives every row its own seq. So an equal row with the same seq was delivered twice: it is dropped, and is no
fault of the log. Of different rows with one seq the recorder wrote at most one: the earliest by time is used, and the
others are refused. The order in which they are read does not matter, because files have no order.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Column, Events
from dispatch_audit.pipeline.packing.membership_rows import ChangeKind, MembershipEvent
from dispatch_audit.pipeline.packing.narrow_events import NarrowEvents
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.packing.snapshot import StatsRow

# By time first, so that the lowest content is the earliest.
_BY_TIME: Final = ("ts_us", *(name for name in Events._fields if name not in ("ts_us", "seq")))
_CODES: Final[dict[ChangeKind, Code]] = {"join": Code.JOIN_START, "leave": Code.LEAVE_START, "reset": Code.RESET_START}
_SNAPSHOTS: Final = (Code.MARK_DELETE, Code.OTHER)

_Detail: TypeAlias = MembershipEvent | StatsRow
_R = TypeVar("_R", _Detail, SettingsRow)
_Content = tuple[tuple[int, ...], ...]
"""The events of one row, each as its values of `_BY_TIME`."""

UNKNOWN_CONSUMER: Final = "unknown_consumer"
IMPOSSIBLE_TRANSITION: Final = "impossible_transition"
DUPLICATE_SEQ: Final = "duplicate_seq"
REPEATED_ROW: Final = "repeated_row"
"""The only reason that is no fault of the trace: the row is used once."""


@checkpointed("refused_row")
class Refused(NamedTuple):
    """A refused row, which does not change the state of the replay."""

    seq: int  # the seq of the row
    reason: str  # one of the codes above, which `dispatch_audit.pipeline.trace.reasons` explains
    detail: str  # the contradiction as a clause; it lacks its subject where that is `consumer`
    # The consumer that the clause is about, by the replay's number; None: the clause has its own subject.
    consumer: int | None = None


def repeated_row(seq: int) -> Refused:
    """A row that is dropped because the same row was there before."""
    return Refused(seq, REPEATED_ROW, "the log has the same row more than once")


class Once(NamedTuple):
    """Rows of which no two have the same seq."""

    events: NarrowEvents  # the rows
    details: list[_Detail]  # of the joins, leaves, resets and snapshots among them
    repeated: list[Refused]  # rows left out because the same row was there before
    contradicted: list[Refused]  # rows left out because another row of the same seq has other content


def once(events: NarrowEvents, details: list[_Detail]) -> Once:
    """At most one row for each seq, and the rows left out.

    Events are in the order of seq, those made of one row next to each other; details of them in any order.
    """
    starts = np.flatnonzero(events.column("part") == 0)
    seq = events.column("seq")[starts]
    again = np.diff(seq, prepend=-1) == 0
    if not again.any():
        return Once(events, details, [], [])
    sizes = np.diff(np.append(starts, events.rows))
    unlike = _unlike_the_first(events, starts, sizes, again)
    of_seq = _by_seq(details)
    differ = {*seq[unlike].tolist(), *(at for at, rows in of_seq.items() if len(rows) > 1)}
    repeated = [repeated_row(int(s)) for s in seq[again & ~np.isin(seq, list(differ))]]
    used = ~again
    contradicted: list[Refused] = []
    for at in sorted(differ):
        first, end = np.searchsorted(seq, [at, at + 1])
        rows = [_content(events, starts[number], sizes[number]) for number in range(first, end)]
        # Rows with the same events may differ in their details.
        fitting = {content: [row for row in of_seq.get(at, ()) if _is_of(row, content)] for content in rows}
        earliest = min(fitting)
        used[first:end] = np.arange(end - first) == rows.index(earliest)
        of_seq[at] = fitting[earliest][:1]
        different = sum(max(len(details_of), 1) for details_of in fitting.values())
        repeated += [repeated_row(at)] * (len(rows) - different)
        contradicted += [_contradicted(at)] * (different - 1)
    kept = [row for rows_of in of_seq.values() for row in rows_of]
    return Once(events.take(np.repeat(used, sizes)), kept, sorted(repeated), contradicted)


def settings_once(rows: list[SettingsRow], seqs: Column) -> tuple[list[SettingsRow], list[Refused], list[Refused]]:
    """At most one row `settings` of each seq, in their order; the repetitions left out, and those that contradict.

    One that has the seq of a row of another event (`seqs`, ascending) is left out. Rows that are `aside`, or put in
    force again at the beginning of a term, are all kept: they have the place of another row.
    """
    used = sorted({row for row in rows if row.aside or not row.recorded})
    repeated: list[Refused] = []
    contradicted: list[Refused] = []
    numbered = [row for row in rows if row.recorded and not row.aside]
    for seq, of_seq in _by_seq(numbered).items():
        at = int(np.searchsorted(seqs, seq))
        is_taken = at < seqs.size and seqs[at] == seq
        first = min(of_seq, key=lambda row: (row.ts_us, row))
        used += [] if is_taken else [first]
        contradicted += [_contradicted(seq)] * (len(of_seq) - (not is_taken))
        repeated += [repeated_row(seq)] * (sum(row.seq == seq for row in numbered) - len(of_seq))
    # What is put in force anew comes before what is put in force again.
    return sorted(used, key=lambda row: (row.seq, not row.anew, row.said_seq)), repeated, contradicted


def _unlike_the_first(
    events: NarrowEvents, starts: NDArray[np.intp], sizes: NDArray[np.intp], again: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which rows differ from the first row of their seq."""
    first = np.maximum.accumulate(np.where(again, 0, np.arange(again.size)))
    unlike: NDArray[np.bool_] = again & (sizes != sizes[first])
    compared = np.flatnonzero(again & ~unlike)
    row = np.repeat(compared, sizes[compared])
    of_row = np.flatnonzero(np.repeat(again & ~unlike, sizes))
    of_first = of_row - starts[row] + starts[first[row]]
    for column in events.columns:
        if column.distances is not None:
            unlike[row[column.distances[of_row] != column.distances[of_first]]] = True
    return unlike


def _content(events: NarrowEvents, start: int, size: int) -> _Content:
    wide = events.some(start, start + size).wide()
    return tuple(zip(*(getattr(wide, name).tolist() for name in _BY_TIME), strict=True))


def _is_of(row: _Detail, content: _Content) -> bool:
    """Whether a row with this content may have these details."""
    ts_us, code, consumer = (content[0][_BY_TIME.index(name)] for name in ("ts_us", "code", "consumer"))
    if isinstance(row, StatsRow):
        return row.ts_us == ts_us and code in _SNAPSHOTS
    return (row.ts_us, row.consumer, _CODES[row.kind] + row.late) == (ts_us, consumer, code)


def _by_seq(rows: Iterable[_R]) -> dict[int, list[_R]]:
    """The different rows of each seq, in an order that does not depend on that of `rows`."""
    found: dict[int, list[_R]] = {}
    for row in sorted(set(rows)):
        found.setdefault(row.seq, []).append(row)
    return found


def _contradicted(seq: int) -> Refused:
    return Refused(seq, DUPLICATE_SEQ, "another row with the same seq has different content")
