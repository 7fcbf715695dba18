"""What the broker said of itself: a `stats` row of the trace (contract 7, TRACE_FORMAT `snapshot`).

It travels as JSON beside the packed events, because there are few of them and nothing in the hot loop reads one.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_POSITION = re.compile(r"(\d{1,18}):(-?\d{1,18})")

Position = tuple[int, int]


class StatsRow(NamedTuple):
    """A `stats` row as it travels; `text` is its struct `snapshot` as JSON."""

    seq: int
    ts_us: int
    text: str


class ConsumerSnapshot(NamedTuple):
    """One consumer in a snapshot; what the broker did not say is None.

    Attributes:
        consumer: its number in the trace.
        permits: `availablePermits`, in messages.
        unacked: `unackedMessages`.
        ranges: `keyHashRanges`, both ends inclusive; None: as in the snapshot before (`views.LatestRanges`).
        draining: pending entries by draining hash (`drainingHashes`).
        refused: attempts to send something of a draining hash to another consumer (`blockedAttempts`), by hash.
        joined_at: `readPositionWhenJoining` of the dispatcher of recently joined consumers.
    """

    consumer: int
    permits: int | None
    unacked: int | None
    ranges: frozenset[tuple[int, int]] | None
    draining: Mapping[int, int] | None
    refused: Mapping[int, int]
    joined_at: Position | None


class Snapshot(NamedTuple):
    """A snapshot of one subscription.

    Attributes:
        seq: of its row.
        ts_us: of its row.
        seq_begin: it was taken behind this row,
        seq_end: and before the one after this.
        in_replay: `msgInReplay`, in entries.
        read_position: of the next normal read.
        mark_delete: everything up to it is deleted at the cursor.
        consumers: those connected.
    """

    seq: int
    ts_us: int
    seq_begin: int
    seq_end: int
    in_replay: int | None
    read_position: Position | None
    mark_delete: Position | None
    consumers: tuple[ConsumerSnapshot, ...]


def parsed_position(text: str | None) -> Position | None:
    """A position as Pulsar writes it; None if it is none."""
    found = _POSITION.fullmatch(text or "")
    return None if found is None else (int(found[1]), int(found[2]))


def parsed_snapshot(row: StatsRow) -> Snapshot:
    """A snapshot from its row, whose seq bounds it where it does not say when it was taken."""
    told: dict[str, Any] = json.loads(row.text)
    return Snapshot(
        row.seq,
        row.ts_us,
        _or(told.get("seq_begin"), row.seq),
        _or(told.get("seq_end"), row.seq),
        told.get("msg_in_replay"),
        parsed_position(told.get("read_position")),
        parsed_position(told.get("mark_delete_position")),
        tuple(_consumer(consumer) for consumer in told.get("consumers") or ()),
    )


def _or(value: int | None, absent: int) -> int:
    return absent if value is None else value


def _consumer(told: Mapping[str, Any]) -> ConsumerSnapshot:
    ranges, draining = told.get("key_hash_ranges"), told.get("draining_hashes")
    return ConsumerSnapshot(
        _or(told.get("consumer"), -1),
        told.get("available_permits"),
        told.get("unacked_messages"),
        None if ranges is None else frozenset((start, end) for start, end in ranges),
        None if draining is None else {d["hash"]: _or(d.get("unacked_messages"), 0) for d in draining},
        {d["hash"]: d["blocked_attempts"] for d in draining or () if d.get("blocked_attempts") is not None},
        parsed_position(told.get("read_position_when_joining")),
    )
