"""Snapshots of the broker's statistics: the `stats` rows of the trace (contract 7, TRACE_FORMAT `snapshot`).

They travel as JSON beside the packed events, because there are few of them and nothing in the hot loop reads one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed

_POSITION = re.compile(r"(\d{1,18}):(-?\d{1,18})")
_STICKY: Final[Mapping[str | None, bool]] = {"STICKY": True, "AUTO_SPLIT": False}


Position = tuple[int, int]
NO_RANGES: Final[frozenset[tuple[int, int]]] = frozenset()


class StatsRow(NamedTuple):
    """A `stats` row as it travels; `text` is its struct `snapshot` as JSON."""

    seq: int
    ts_us: int
    text: str


@checkpointed("consumer_snapshot")
class ConsumerSnapshot(NamedTuple):
    """One consumer in a snapshot; values that the broker did not report are None."""

    consumer: int  # its number in the trace
    permits: int | None  # `availablePermits`, in messages
    unacked: int | None  # `unackedMessages`
    # `keyHashRanges`, both ends inclusive; None: as in the snapshot before (`FormerConsumers`), but for `changed`.
    ranges: frozenset[tuple[int, int]] | None
    draining: Mapping[int, int] | None  # pending entries by draining hash (`drainingHashes`)
    # Attempts to send something of a draining hash to another consumer (`blockedAttempts`), by hash.
    refused: Mapping[int, int]
    cleared: int | None  # `drainingHashesClearedTotal`, how many draining hashes of it were cleared since it connected
    joined_at: Position | None  # `readPositionWhenJoining` of the dispatcher of recently joined consumers
    name: str | None = None  # `consumerName`
    # Ranges that it has and did not have in the snapshot before, and those that it had and has no more.
    changed: frozenset[tuple[int, int]] = NO_RANGES

    def ranges_after(self, before: frozenset[tuple[int, int]] | None) -> frozenset[tuple[int, int]] | None:
        """Its ranges, given those in the snapshot before; None: they are not known."""
        if self.ranges is not None:
            return self.ranges
        return before if before is None or not self.changed else before ^ self.changed

    def onto(self, before: "ConsumerSnapshot") -> "ConsumerSnapshot":
        """The consumer in the snapshot before, with what this one says."""
        said = {name: value for name, value in self._asdict().items() if value is not None}
        if self.draining is None:
            del said["refused"]
        return before._replace(**{**said, "ranges": self.ranges_after(before.ranges)})


NOT_SAID: Final = ConsumerSnapshot(-1, None, None, None, None, {}, None, None)
"""A connected consumer about which no snapshot says anything else."""


@checkpointed("snapshot")
class Snapshot(NamedTuple):
    """A snapshot of one subscription."""

    seq: int  # the seq of its row
    ts_us: int  # the time of its row
    seq_begin: int  # the rows up to this one come before the snapshot
    seq_end: int  # the rows after this one come after it
    in_replay: int | None  # `msgInReplay`, in entries
    unacked: int | None  # `unackedMessages` of the subscription
    read_position: Position | None  # the position of the next normal read
    mark_delete: Position | None  # the position up to which all entries are deleted at the cursor
    # `subscriptionHavePendingRead` or `subscriptionHavePendingReplayRead`: whether the dispatcher waits for a read;
    # None: not reported.
    reads: bool | None
    consumers: tuple[ConsumerSnapshot, ...]  # the connected consumers
    sticky: bool | None = None  # whether consumers declare their ranges (`keySharedMode`); None: not reported
    out_of_order: bool | None = None  # `allowOutOfOrderDelivery`; None: not reported
    # Entries that wait at least, by `msgBacklog` without `msgDelayed` and what consumers hold; 0: not known.
    waiting: int = 0
    # Further connected consumers; a value that is None is that of the snapshot before.
    as_before: tuple[ConsumerSnapshot, ...] = ()
    storage_reads: int = 0  # `pendingReadOps`, the reads of the cursor from storage that have not ended
    full: bool = False  # `blockedSubscriptionOnUnackedMsgs`: it reads nothing new

    @property
    def keeps_order(self) -> bool | None:
        """Whether the subscription promises order; None: the snapshot does not show it.

        Hashes drain only where it does (contract 3.1).
        """
        if self.out_of_order is not None:
            return not self.out_of_order
        return True if any(consumer.draining or consumer.cleared for consumer in self.consumers) else None


def parsed_position(text: str | None) -> Position | None:
    """The position in a text as Pulsar writes it; None if the text is no position."""
    found = _POSITION.fullmatch(text or "")
    return None if found is None else (int(found[1]), int(found[2]))


def parsed_snapshot(row: StatsRow) -> Snapshot:
    """The snapshot in a row; the seq of the row bounds it where the row has no `seq_begin` or `seq_end`."""
    values: dict[str, Any] = json.loads(row.text)
    return Snapshot(
        row.seq,
        row.ts_us,
        _or(values.get("seq_begin"), row.seq),
        _or(values.get("seq_end"), row.seq),
        values.get("msg_in_replay"),
        values.get("unacked_messages"),
        parsed_position(values.get("read_position")),
        parsed_position(values.get("mark_delete_position")),
        _reads(values.get("subscription_have_pending_read"), values.get("subscription_have_pending_replay_read")),
        tuple(_consumer(consumer) for consumer in values.get("consumers") or ()),
        _STICKY.get(values.get("key_shared_mode")),
        values.get("allow_out_of_order_delivery"),
        _waiting(values),
        tuple(_consumer(consumer) for consumer in values.get("consumers_as_before") or ()),
        _or(values.get("pending_read_ops"), 0),
        bool(values.get("blocked_subscription_on_unacked_msgs")),
    )


def _waiting(values: Mapping[str, Any]) -> int:
    """Entries that wait at least: of those in the backlog each that a consumer holds has one message or more."""
    backlog, unacked = values.get("msg_backlog"), values.get("unacked_messages")
    if backlog is None or unacked is None:
        return 0
    waiting: int = backlog - max(unacked, 0) - (values.get("msg_delayed") or 0)
    return max(waiting, 0)


def _reads(normal: bool | None, replay: bool | None) -> bool | None:
    return None if normal is None or replay is None else normal or replay


def _or(value: int | None, absent: int) -> int:
    return absent if value is None else value


def _consumer(values: Mapping[str, Any]) -> ConsumerSnapshot:
    ranges, draining = values.get("key_hash_ranges"), values.get("draining_hashes")
    return ConsumerSnapshot(
        _or(values.get("consumer"), -1),
        values.get("available_permits"),
        values.get("unacked_messages"),
        None if ranges is None else _ranges(ranges),
        None if draining is None else {d["hash"]: _or(d.get("unacked_messages"), 0) for d in draining},
        {d["hash"]: d["blocked_attempts"] for d in draining or () if d.get("blocked_attempts") is not None},
        values.get("draining_hashes_cleared_total"),
        parsed_position(values.get("read_position_when_joining")),
        values.get("consumer_name"),
        _ranges(values.get("key_hash_ranges_changed") or ()),
    )


def _ranges(pairs: Sequence[Sequence[int]]) -> frozenset[tuple[int, int]]:
    return frozenset((start, end) for start, end in pairs) if pairs else NO_RANGES
