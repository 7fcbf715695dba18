"""A chunk: the rows of one group out of one batch, and how it travels and is merged.

Chunks of one group overlap in time, because logs do: messages, acks and consumers are recorded apart. They arrive
ordered by their first seq, so everything before the first seq of the chunk to come is complete and in order.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipeline.replay.events import DTYPES, Events, concatenated
from pipeline.replay.membership import Row
from pipeline.replay.producers import NOTHING, Published
from pipeline.replay.refused import DUPLICATE_SEQ, Refused
from pipeline.replay.snapshot import SnapshotRow

_WIDTHS = (0, 1, 2, 4, 8)
ROWS_MIN = 1 << 16
ROWS_MAX = 1 << 18


class Chunk(NamedTuple):
    """Rows of one group, ascending by seq.

    Attributes:
        group: number of the (topic, subscription).
        first_seq: of its rows.
        last_seq: of its rows.
        events: the rows; never none.
        membership: what only the joins, leaves and resets among them carry.
        snapshots: what only the snapshots among them carry.
        published: what the publishes among them say of their producers.
    """

    group: int
    first_seq: int
    last_seq: int
    events: Events
    membership: tuple[Row, ...]
    snapshots: tuple[SnapshotRow, ...]
    published: Published = NOTHING


class Merged(NamedTuple):
    """Rows of several chunks in the order of seq.

    Attributes:
        events: the rows.
        membership: as in `Chunk`.
        snapshots: as in `Chunk`.
        repeated: rows left out because a row of the same seq was there before.
    """

    events: Events
    membership: list[Row]
    snapshots: list[SnapshotRow]
    repeated: list[Refused]


def encode_events(events: Events) -> bytes:
    """The columns, each as narrow as its values allow: the bytes of a chunk are what the exchange moves.

    A column travels as its lowest value and unsigned distances from it, of 1, 2, 4 or 8 bytes; of none where all
    values are equal.
    """
    rows = events.seq.size
    head, body = [rows], []
    for column in events:
        lowest, highest = (int(column.min()), int(column.max())) if rows else (0, 0)
        width = next(width for width in _WIDTHS if highest - lowest < 1 << 8 * width)
        head += [width, lowest]
        if width == 8:
            # The distance of two words of an ack set may not fit, so these stay as they are.
            head[-1] = 0
            body.append(column.astype(np.int64).tobytes())
        elif width:
            body.append((column - column.dtype.type(lowest)).astype(f"u{width}").tobytes())
    return b"".join([np.array(head, dtype=np.int64).tobytes(), *body])


def decode_events(payload: bytes) -> Events:
    """The columns that `encode_events` wrote."""
    head = np.frombuffer(payload, dtype=np.int64, count=1 + 2 * len(DTYPES)).tolist()
    rows, at = head[0], 8 * len(head)
    columns = []
    for (width, lowest), dtype in zip(zip(head[1::2], head[2::2], strict=True), DTYPES.values(), strict=True):
        column = np.full(rows, lowest, dtype=dtype)
        if width:
            column += np.frombuffer(
                payload, dtype=f"{'i' if width == 8 else 'u'}{width}", count=rows, offset=at
            ).astype(dtype)
        columns.append(column)
        at += width * rows
    return Events(*columns)


def encode_membership(rows: Iterable[Row]) -> str:
    """The rows as JSON."""
    return json.dumps([tuple(row) for row in rows])


def decode_membership(text: str) -> tuple[Row, ...]:
    """The rows that `encode_membership` wrote."""
    found = (Row(*values) for values in json.loads(text))
    return tuple(row._replace(ranges=tuple((start, end) for start, end in row.ranges)) for row in found)


def encode_snapshots(rows: Iterable[SnapshotRow]) -> str:
    """The rows as JSON."""
    return json.dumps([tuple(row) for row in rows])


def decode_snapshots(text: str) -> tuple[SnapshotRow, ...]:
    """The rows that `encode_snapshots` wrote."""
    return tuple(SnapshotRow(*values) for values in json.loads(text))


def merged(chunks: Iterable[Chunk], rows_min: int = ROWS_MIN) -> Iterator[Merged]:
    """The rows of the chunks of one group in the order of seq, as soon as they are complete and some have gathered.

    Args:
        chunks: of one group, ordered by `first_seq`.
        rows_min: how many should have gathered: each part costs its fixed share of what follows.
    """
    waiting: list[Events] = []
    gathered, enough = 0, rows_min
    rows: list[Row] = []
    snapshots: list[SnapshotRow] = []
    for chunk in chunks:
        if gathered >= enough:
            complete, waiting = _split(waiting, chunk.first_seq)
            gathered = sum(events.seq.size for events in waiting)
            # What is not complete now is looked at again when as much has come to it.
            enough = max(rows_min, 2 * gathered)
            ready = [row for row in rows if row.seq < chunk.first_seq]
            rows = [row for row in rows if row.seq >= chunk.first_seq]
            told = [snapshot for snapshot in snapshots if snapshot.seq < chunk.first_seq]
            snapshots = [snapshot for snapshot in snapshots if snapshot.seq >= chunk.first_seq]
            if complete:
                yield from _parts(_in_order(complete, ready, told))
        waiting.append(chunk.events)
        gathered += chunk.events.seq.size
        rows += chunk.membership
        snapshots += chunk.snapshots
    if waiting:
        yield from _parts(_in_order(waiting, rows, snapshots))


def _parts(whole: Merged) -> Iterator[Merged]:
    """The same rows in parts of about `ROWS_MAX` at most: what follows takes memory in proportion to a part."""
    seq = whole.events.seq
    # What was made of one row stays together.
    starts = sorted({int(np.searchsorted(seq, seq[at])) for at in range(0, seq.size, ROWS_MAX)})
    for number, (start, stop) in enumerate(pairwise([*starts, seq.size])):
        first, behind = int(seq[start]), int(seq[stop]) if stop < seq.size else int(seq[-1]) + 1
        yield Merged(
            whole.events.rows(start, stop),
            [row for row in whole.membership if first <= row.seq < behind],
            [snapshot for snapshot in whole.snapshots if first <= snapshot.seq < behind],
            whole.repeated if number == 0 else [],
        )


def _split(waiting: list[Events], seq: int) -> tuple[list[Events], list[Events]]:
    """What lies before `seq`, and the rest."""
    cuts = [int(np.searchsorted(events.seq, seq)) for events in waiting]
    before = [events.rows(0, cut) for events, cut in zip(waiting, cuts, strict=True) if cut]
    rest = [e.rows(cut, e.seq.size) for e, cut in zip(waiting, cuts, strict=True) if cut < e.seq.size]
    return before, rest


def _in_order(parts: list[Events], rows: list[Row], snapshots: list[SnapshotRow]) -> Merged:
    events = concatenated(parts)
    events = events.take(np.argsort(events.seq, kind="stable"))
    # The first part of a row stands behind another row of the same seq: it is a repetition.
    fresh = events.part == 0
    again = np.zeros(events.seq.size, dtype=np.bool_)
    again[1:] = fresh[1:] & (events.seq[1:] == events.seq[:-1])
    repeated = [Refused(int(s), DUPLICATE_SEQ, "another row has the same seq") for s in events.seq[again]]
    if repeated:
        begins = np.flatnonzero(np.diff(events.seq, prepend=-1))
        told = np.cumsum(again)
        events = events.take(told == np.repeat(told[begins], np.diff(np.append(begins, events.seq.size))))
        rows = list({row.seq: row for row in reversed(rows)}.values())
        snapshots = list({snapshot.seq: snapshot for snapshot in reversed(snapshots)}.values())
    return Merged(events, sorted(rows), sorted(snapshots), repeated)
