"""Drops repeated rows and refuses rows that contradict each other: at most one row of each seq is used.

A recorder gives every row its own seq. So an equal row with the same seq was delivered twice: it is dropped, and is no
fault of the log. Of different rows with one seq the recorder wrote at most one: the earliest by time is used, and the
others are refused. The order in which they are read does not matter, because files have no order.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import Code, Column, Events
from dispatch_audit.pipeline.replay.packing.membership_rows import ChangeKind, MembershipEvent
from dispatch_audit.pipeline.replay.packing.narrow_events import NarrowEvents
from dispatch_audit.pipeline.replay.packing.refused import DUPLICATE_SEQ, REPEATED_ROW, Refused
from dispatch_audit.pipeline.replay.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow

# By time first, so that the lowest content is the earliest.
_BY_TIME: Final = ("ts_us", *(name for name in Events._fields if name not in ("ts_us", "seq")))
_CODES: Final[dict[ChangeKind, Code]] = {"join": Code.JOIN_START, "leave": Code.LEAVE_START, "reset": Code.RESET_START}
_SNAPSHOTS: Final = (Code.MARK_DELETE, Code.OTHER)

_R = TypeVar("_R", MembershipEvent, StatsRow, SettingsRow)
_Content = tuple[tuple[int, ...], ...]
"""The events of one row, each as its values of `_BY_TIME`."""


class Once(NamedTuple):
    """Rows of which no two have the same seq.

    Attributes:
        events: the rows.
        membership: what only the joins, leaves and resets among them carry.
        snapshots: what only the snapshots among them carry.
        repeated: rows left out because the same row was there before.
        contradicted: rows left out because another row of the same seq says something else.
    """

    events: NarrowEvents
    membership: list[MembershipEvent]
    snapshots: list[StatsRow]
    repeated: list[Refused]
    contradicted: list[Refused]


def once(events: NarrowEvents, membership: list[MembershipEvent], snapshots: list[StatsRow]) -> Once:
    """At most one row for each seq, and the rows left out.

    Args:
        events: at least one, in the order of seq; events made of one row are next to each other.
        membership: the details of the joins, leaves and resets among them, in any order.
        snapshots: the details of the snapshots among them, in any order.
    """
    starts = np.flatnonzero(events.column("part") == 0)
    seq = events.column("seq")[starts]
    again = np.diff(seq, prepend=-1) == 0
    if not again.any():
        return Once(events, membership, snapshots, [], [])
    sizes = np.diff(np.append(starts, events.rows))
    unlike = _unlike_the_first(events, starts, sizes, again)
    differ = {*seq[unlike].tolist(), *_several(membership), *_several(snapshots)}
    in_doubt = np.isin(seq, list(differ))
    repeated = [_repeated(int(s)) for s in seq[again & ~in_doubt]]
    used = ~again
    contradicted: list[Refused] = []
    changes, stats = _by_seq(membership), _by_seq(snapshots)
    for at in sorted(differ):
        first, end = np.searchsorted(seq, [at, at + 1])
        rows = [_content(events, starts[number], sizes[number]) for number in range(first, end)]
        contents = Counter(rows)
        earliest = min(contents)
        used[first:end] = np.arange(end - first) == rows.index(earliest)
        different = 0
        for content in contents:
            fitting_changes = [row for row in changes.get(at, ()) if _is_of(row, content)]
            fitting_stats = [row for row in stats.get(at, ()) if _is_snapshot_of(row, content)]
            different += max(len(fitting_changes), len(fitting_stats), 1)
            if content == earliest:
                used_changes, used_stats = fitting_changes[:1], fitting_stats[:1]
        changes[at], stats[at] = used_changes, used_stats
        repeated += [_repeated(at)] * (len(rows) - different)
        contradicted += [_contradicted(at)] * (different - 1)
    return Once(
        events.take(np.repeat(used, sizes)),
        [row for of_seq in changes.values() for row in of_seq],
        [row for of_seq in stats.values() for row in of_seq],
        sorted(repeated),
        contradicted,
    )


def settings_once(rows: list[SettingsRow], seqs: Column) -> tuple[list[SettingsRow], list[Refused], list[Refused]]:
    """At most one row `settings` of each seq, in their order; the repetitions left out, and those that contradict.

    One that has the seq of a row of another event gives way to it. Rows aside have the place of another row, and those
    that are put in force again at the beginning of a term have one place.

    Args:
        rows: in any order.
        seqs: of the other rows, ascending.
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
        repeated += [_repeated(seq)] * (sum(row.seq == seq for row in numbered) - len(of_seq))
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


def _is_of(row: MembershipEvent, content: _Content) -> bool:
    """Whether a membership row may have this content."""
    ts_us, code, consumer = (content[0][_BY_TIME.index(name)] for name in ("ts_us", "code", "consumer"))
    return (row.ts_us, row.consumer, _CODES[row.kind] + row.late) == (ts_us, consumer, code)


def _is_snapshot_of(row: StatsRow, content: _Content) -> bool:
    """Whether a snapshot may have this content."""
    return row.ts_us == content[0][_BY_TIME.index("ts_us")] and content[0][_BY_TIME.index("code")] in _SNAPSHOTS


def _by_seq(rows: Iterable[_R]) -> dict[int, list[_R]]:
    """The different rows of each seq, in an order that does not depend on that of `rows`."""
    found: dict[int, list[_R]] = {}
    for row in sorted(set(rows)):
        found.setdefault(row.seq, []).append(row)
    return found


def _several(rows: Iterable[_R]) -> list[int]:
    """The seqs with different rows."""
    return [seq for seq, of_seq in _by_seq(rows).items() if len(of_seq) > 1]


def _repeated(seq: int) -> Refused:
    return Refused(seq, REPEATED_ROW, "the log has the same row more than once")


def _contradicted(seq: int) -> Refused:
    return Refused(seq, DUPLICATE_SEQ, "another row with the same seq has different content")
