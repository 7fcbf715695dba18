"""PIP-474's hot-key overflow: entries of hashes that dominate replay go to a ledger of their own.

Source: pip-474.md of the Pulsar repository (apache/pulsar#25706), "Hot Key Detection Strategy" to "Interaction with
Draining Hashes". Where it is silent, this model does what keeps the order:
- An entry of a hot hash is written only if no older one of the hash waits in replay, and all written ones are older.
  Entries that a leaver gave back are older than the ledger's, and are sent from replay before it.
- A replay read takes entries of hot hashes whether or not their owner has permits; otherwise replay would not shrink.
- A consumer that leaves returns entries of the overflow ledger to it.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.policies.draining import DrainingPolicy
from dispatch_audit.pipeline.simulate.policies.policy import Grouped
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


@dataclass(frozen=True, slots=True)
class OverflowSettings:
    """The settings of PIP-474, with its defaults.

    Attributes:
        watermark: `keySharedHotKeyDetectionWatermark`, a share of the look-ahead limit.
        top_n: `keySharedHotKeyTopN`.
        dominance: `keySharedHotKeyDominanceThreshold`, a share of replay.
        batch: `keySharedHotKeyOverflowDispatchBatch`, entries.
        cool_down_us: `keySharedHotKeyReleaseCooldownMs`.
    """

    watermark: float = 0.8
    top_n: int = 10
    dominance: float = 0.5
    batch: int = 100
    cool_down_us: int = 60_000_000


OPTIONS: Mapping[str, tuple[str, float]] = {
    "keySharedHotKeyDetectionWatermark": ("watermark", 1),
    "keySharedHotKeyTopN": ("top_n", 1),
    "keySharedHotKeyDominanceThreshold": ("dominance", 1),
    "keySharedHotKeyOverflowDispatchBatch": ("batch", 1),
    "keySharedHotKeyReleaseCooldownMs": ("cool_down_us", 1000),
}
"""The settings of PIP-474, with the field and the factor of each."""


def overflow_settings(options: Mapping[str, object]) -> OverflowSettings:
    """The settings that the names of PIP-474 give.

    Raises:
        UsageError: a value is no number, or below 0.
    """
    found: dict[str, float] = {}
    for name, (field, factor) in OPTIONS.items():
        value = options.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise UsageError(f"setting {name} is {value!r}", "give a number, 0 or more")
        found[field] = value * factor
    return OverflowSettings(**found)  # type: ignore[arg-type]  # numbers by name of the field


class _Hot:
    """A hot hash: its entries in the ledger that are not sent, the last one written, since when replay has none."""

    __slots__ = ("empty_since_us", "queue", "reading", "written_up_to")

    def __init__(self) -> None:
        self.queue: deque[int] = deque()
        self.written_up_to = -1
        self.reading = False
        self.empty_since_us = -1


class HotKeyOverflowPolicy(DrainingPolicy):
    """A draining dispatcher with an overflow ledger.

    Attributes:
        hot: the hot hashes.
        detected: how often hashes were marked as hot.
    """

    def __init__(self, state: DispatcherState, settings: OverflowSettings) -> None:
        super().__init__(state)
        self.settings = settings
        self.hot: dict[int, _Hot] = {}
        self.detected = 0
        self._writing: set[int] = set()
        self._generation = 0

    def unfinished(self) -> bool:
        """Whether entries of the ledger are not acknowledged."""
        return bool(self.holds or self._writing)

    # --- detection and release ---------------------------------------------------------------------------------------

    def read_cycle(self) -> None:
        """In each turn of the read loop: marks and releases hot hashes, and reads from the ledger."""
        limit = self.limit()
        if limit and len(self.state.replay) >= self.settings.watermark * limit:
            self._detect()
        for sticky_hash, hot in list(self.hot.items()):
            if hot.queue and not hot.reading:
                self._read_ledger(sticky_hash, hot)
            self._release(sticky_hash, hot)

    def _detect(self) -> None:
        by_hash = self.state.replay.by_hash
        top = nlargest(self.settings.top_n, by_hash.values(), key=len)
        if all(queue.hash in self.hot for queue in top):
            return
        if sum(map(len, top)) >= self.settings.dominance * len(self.state.replay):
            self.detected += 1
            for queue in top:
                self.hot.setdefault(queue.hash, _Hot())

    def _release(self, sticky_hash: int, hot: _Hot) -> None:
        now_us = self.state.agenda.now_us
        if sticky_hash in self.state.replay.by_hash or hot.queue or hot.reading or self._is_written(sticky_hash):
            hot.empty_since_us = -1
        elif hot.empty_since_us < 0:
            hot.empty_since_us = now_us
        elif now_us - hot.empty_since_us >= self.settings.cool_down_us:
            del self.hot[sticky_hash]

    def _is_written(self, sticky_hash: int) -> bool:
        return any(self.state.hashes[position] == sticky_hash for position in self._writing)

    # --- diversion ---------------------------------------------------------------------------------------------------

    def replay_candidates(self, entries_max: int) -> list[int]:
        """Besides what can be sent: entries of hot hashes, to be written to the ledger."""
        if not self.hot:
            return super().replay_candidates(entries_max)
        diverted: set[int] = set()
        for sticky_hash, hot in self.hot.items():
            for position in self.state.replay.by_hash.get(sticky_hash, ()):
                if len(diverted) >= entries_max:
                    break
                if position > hot.written_up_to and position not in self._writing:
                    diverted.add(position)
        sent = [p for p in super().replay_candidates(entries_max) if p not in self._writing]
        return sorted(diverted.union(sent))[:entries_max]

    def group(self, entries: list[int], replay_read: bool) -> Grouped:
        """Writes entries of hot hashes to the ledger, and groups the others."""
        if not self.hot:
            return super().group(entries, replay_read)
        others: list[int] = []
        diverted: list[int] = []
        for position in entries:
            hot = self.hot.get(self.state.hashes[position])
            if hot is None:
                others.append(position)
            elif position in self._writing:
                continue
            elif position < (hot.queue[0] if hot.queue else hot.written_up_to):
                # A leaver gave it back, or the cursor rewound: it is older than all that the ledger has to send.
                others.append(position)
            elif position > hot.written_up_to and self._is_next(position, hot.written_up_to, replay_read):
                hot.written_up_to = position
                diverted.append(position)
            else:
                self.state.wait_in_replay(position)
        if diverted:
            self._writing.update(diverted)
            self.state.agenda.after(self.state.timing.overflow_write_us, self._written, diverted)
        grouped = super().group(others, replay_read) if others else Grouped({}, look_ahead=False)
        return grouped._replace(diverted=len(diverted), look_ahead=grouped.look_ahead and not diverted)

    def _is_next(self, position: int, written_up_to: int, replay_read: bool) -> bool:
        """Whether no entry of the hash waits in replay that would be written later than this one."""
        queue = self.state.replay.by_hash.get(self.state.hashes[position])
        if queue is None:
            return True
        waiting = (older for older in queue if older not in self._writing)
        # A replay read contains the oldest of them; what it contains is written in its order.
        return replay_read and next((older for older in waiting if older > written_up_to), position) >= position

    def _written(self, positions: list[int]) -> None:
        """Acknowledges entries at the cursor and takes them out of replay, because the ledger has them."""
        state = self.state
        moved = False
        for position in positions:
            if position not in self._writing:
                continue
            self._writing.discard(position)
            state.replay.remove(position)
            self.holds.add(position)
            self.hot.setdefault(state.hashes[position], _Hot()).queue.append(position)
            moved |= state.cursor.acknowledge(position)
            state.counters.overflowed += 1
            state.counters.overflowed_messages += state.entries.messages_in(position)
            state.counters.overflowed_bytes += state.entries.bytes_in(position)
        state.mark_delete_moved(moved)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _read_ledger(self, sticky_hash: int, hot: _Hot) -> None:
        if not self._may_send(sticky_hash, hot):
            return
        hot.reading = True
        self.state.agenda.after(self.state.draw_read_us(), self._ledger_read, (sticky_hash, self._generation))

    def _may_send(self, sticky_hash: int, hot: _Hot) -> int:
        """How many entries of a hash its owner may be sent from the ledger now."""
        owner = self.state.owner_of(sticky_hash)
        if owner == NOBODY or self._older_is_to_come(sticky_hash, hot.queue[0]):
            return 0
        room = self.state.by_number[owner].available()
        if room <= 0 or self.draining.should_block(owner, sticky_hash):
            return 0
        return min(room, self.settings.batch, len(hot.queue))

    def _older_is_to_come(self, sticky_hash: int, position: int) -> bool:
        """Whether an entry before this one may be sent from the cursor: from replay, or after a rewind."""
        if position >= min(self.state.cursor.read_position, self.state.normal_in_flight):
            return True
        queue = self.state.replay.by_hash.get(sticky_hash)
        return queue is not None and queue.first < position

    def _ledger_read(self, read: tuple[int, int]) -> None:
        sticky_hash, generation = read
        hot = self.hot.get(sticky_hash)
        if generation != self._generation or hot is None:
            return
        hot.reading = False
        entries = self._may_send(sticky_hash, hot) if hot.queue else 0
        if entries:
            positions = [hot.queue.popleft() for _ in range(entries)]
            self.state.counters.overflow_read += entries
            self.state.send(self.state.owner_of(sticky_hash), positions)

    def take_back(self, position: int) -> None:
        """Takes an entry of the ledger that a consumer gave back."""
        hot = self.hot.setdefault(self.state.hashes[position], _Hot())
        ascending = sorted(hot.queue)
        insort(ascending, position)
        hot.queue = deque(ascending)
        hot.written_up_to = max(hot.written_up_to, position)

    def sought(self) -> None:
        """Drops the ledger, whose entries would be sent twice; the proposal does not say what a seek does."""
        self.holds.clear()
        self.hot.clear()

    def cleared(self) -> None:
        """Marks unacknowledged entries of the ledger to be sent again, because the last consumer has left."""
        super().cleared()
        self._generation += 1
        self._writing.clear()
        self.hot.clear()
        for position in sorted(self.holds):
            self.take_back(position)
