"""What snapshots and samples say of a subscription, as far as it matters to why entries wait."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.packing.snapshot import ConsumerSnapshot, Position, Snapshot
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_after, are_before
from dispatch_audit.pipeline.replay.durations import READ_US, SNAPSHOT_LAG_US, SNAPSHOT_LATE_US
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import OVERDUE, Mark

LONG_AGO_US: Final = -NEVER


@checkpointed("reported_reading")
class Reported(NamedTuple):
    """What the last snapshots and samples say, and when they said it, in microseconds.

    Attributes:
        replay_us: when the size of the replay queue was reported.
        in_replay: that size, in entries; None: no snapshot says it.
        position_us: when the read position was reported.
        read_position: the position of the next normal read; None: no snapshot says it.
        stands_us: when a snapshot showed that read position first.
        mark_delete: the position up to which all entries are deleted at the cursor; None: no snapshot says it.
        unacked_us: when unacknowledged messages and permits were reported.
        unacked: unacknowledged messages of the subscription; None: no snapshot says it.
        full: whether the subscription was blocked on them.
        short: the indexes of the consumers that had no permits.
        released: the indexes of the consumers that mark-delete let go: it reaches where they joined (6.1).
        reads: whether the dispatcher waited for a read at `position_us`; None: that snapshot does not say it.
        storage_us: since when every snapshot has shown a read from storage under way; 0: the last one does not.
        replay_at_read: the last size of the replay queue in front of which the broker read on; 0: no snapshot shows it.
        waiting: how many entries waited at least while a consumer was connected; 0: no snapshot shows it.
    """

    replay_us: int = 0
    in_replay: int | None = None
    position_us: int = 0
    read_position: Position | None = None
    stands_us: int = 0
    mark_delete: Position | None = None
    unacked_us: int = 0
    unacked: int | None = None
    full: bool = False
    short: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()
    reads: bool | None = None
    storage_us: int = 0
    replay_at_read: int = 0
    waiting: int = 0

    def read_since(self, since_us: int) -> Position | None:
        """The read position that snapshots have shown since a time; None: none shows one for so long."""
        return self.read_position if self.stands_us <= since_us else None

    def since(self, since_us: int) -> "Reported":
        """What was reported at a time or later."""
        found = self
        if self.replay_us < since_us:
            found = found._replace(in_replay=None)
        if self.position_us < since_us:
            found = found._replace(read_position=None, reads=None, released=frozenset())
        if self.unacked_us < since_us:
            found = found._replace(unacked=None, full=False, short=frozenset())
        return found


@checkpointed("reports")
class Reports:
    """Follows what snapshots and samples say.

    Attributes:
        last: what they said last.
    """

    __slots__ = ("_rewound_us", "_without_permits", "last")

    def __init__(self) -> None:
        self.last = Reported()
        self._rewound_us = 0
        self._without_permits: dict[int, int] = {}

    def take(self, snapshot: Snapshot, consumers: Mapping[int, int], blocks_at: int) -> None:
        """Takes from a snapshot how far the broker has read, the size of the replay queue, and the counters.

        Args:
            snapshot: the snapshot.
            consumers: the indexes of consumers by their numbers.
            blocks_at: from so many unacknowledged messages on a consumer is sent nothing; 0: there is no such limit.
        """
        short = frozenset(
            consumers[c.consumer] for c in snapshot.consumers if c.consumer in consumers and _is_short(c, blocks_at)
        )
        self._without_permits.update(dict.fromkeys(short, snapshot.ts_us))
        before = self.last
        found = before._replace(unacked_us=snapshot.ts_us, unacked=snapshot.unacked, full=snapshot.full, short=short)
        found = found._replace(waiting=snapshot.waiting if snapshot.consumers else 0)
        found = found._replace(storage_us=(before.storage_us or snapshot.ts_us) if snapshot.storage_reads else 0)
        if before.read_position is not None and snapshot.read_position not in (None, before.read_position):
            found = found._replace(replay_at_read=before.in_replay or 0)
        if snapshot.in_replay is not None:
            found = found._replace(replay_us=snapshot.ts_us, in_replay=snapshot.in_replay)
        if snapshot.read_position is not None:
            found = found._replace(
                position_us=snapshot.ts_us,
                read_position=snapshot.read_position,
                stands_us=snapshot.ts_us if snapshot.read_position != before.read_position else before.stands_us,
                mark_delete=snapshot.mark_delete,
                released=_released(snapshot, consumers),
                reads=snapshot.reads,
            )
        self.last = found

    def rewound(self, ts_us: int) -> None:
        """Notes when a consumer joined after there was none: reads begin at mark-delete from then on (3.5, 3.6)."""
        self._rewound_us = ts_us

    @property
    def since_rewound(self) -> Reported:
        """What was reported since the read position was rewound last: it only advances from then on."""
        return self.last.since(self._rewound_us + SNAPSHOT_LAG_US)

    def without_permits_us(self, consumer: int) -> int:
        """When the last snapshot that shows a consumer without permits was taken; long ago if none does."""
        return self._without_permits.get(consumer, LONG_AGO_US)


def _released(snapshot: Snapshot, consumers: Mapping[int, int]) -> frozenset[int]:
    """The indexes of the consumers that joined, by a snapshot, at or before the entry after its mark-delete."""
    if snapshot.mark_delete is None:
        return frozenset()
    ledger, entry = snapshot.mark_delete
    joined = ((consumers.get(c.consumer), c.joined_at) for c in snapshot.consumers)
    return frozenset(of for of, at in joined if of is not None and at is not None and at <= (ledger, entry + 1))


def _is_short(consumer: ConsumerSnapshot, blocks_at: int) -> bool:
    """Whether a snapshot shows that a consumer can be sent nothing; the broker may count more than rows (F10, E6)."""
    if consumer.permits is not None and consumer.permits <= 0:
        return True
    return consumer.unacked is not None and 0 < blocks_at <= consumer.unacked


def may_be_skipped(state: Seen, waiting: Waiters, reported: Reported) -> NDArray[np.bool_]:
    """Whether an administrator may have moved mark-delete past each entry; no row says how far it was moved (5.10)."""
    entries, common = state.entries.view(np.ndarray), common_of(state)
    skipped: NDArray[np.bool_] = entries["marks"][waiting.slot] & Mark.MAYBE_SKIPPED != 0
    if common["skip_until_ts"] != UNKNOWN:
        # The row of a publish may come after that of the skip. What was sent is marked if it was sent before the skip.
        unsent = entries["marks"][waiting.slot] & Mark.SENT == 0
        skipped |= unsent & (waiting.since_ts <= common["skip_until_ts"] + common["publish_skew_us"])
    # A snapshot, which takes less than READ_US, from after the last skip may show mark-delete before an entry.
    if reported.mark_delete is not None and reported.position_us > common["skip_begun_ts"] + READ_US:
        skipped &= ~are_after(state, waiting.slot, reported.mark_delete)
    return skipped


def shown_as_read(state: Seen, waiting: Waiters, reported: Reported) -> NDArray[np.bool_]:
    """Which of the waiting entries were read, by rows or by the read position of a snapshot.

    The snapshot overrides earlier rows: a read from before a rewind may send what the cursor still has to read (6.8).
    """
    if reported.read_position is None:
        return waiting.was_read
    read_ts: Any = state.entries.view(np.ndarray)["read_ts"][waiting.slot]
    # 0: the entry was read before it had a row.
    before: NDArray[np.bool_] = (read_ts > 0) & (read_ts <= reported.position_us - SNAPSHOT_LATE_US)
    return (waiting.was_read & ~before) | are_before(state, waiting.slot, reported.read_position)


def reported_as_read(state: Seen, waiting: Waiters, reported: Reported) -> NDArray[np.bool_]:
    """Which entries the broker has read: unless a snapshot shows otherwise, what is due was, to find out its delay."""
    if reported.read_position is not None:
        return shown_as_read(state, waiting, reported)
    entries: Any = state.entries.view(np.ndarray)
    due = entries["marks"][waiting.slot] & OVERDUE == Mark.DUE
    if reported.in_replay is not None and reported.in_replay >= np.count_nonzero(~due):
        return np.ones(waiting.slot.size, dtype=np.bool_)
    read: NDArray[np.bool_] = waiting.was_read | due
    return read
