"""The read loop of the model dispatcher: what is read, and sent to whom (contract 4.2 to 4.11)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from local_replay import Log
from model_agenda import Agenda
from model_state import Bug, Consumer, ModelState

READ_BATCH: Final = 100  # dispatcherMaxReadBatchSize
BACKOFF_US: Final = 1_000, 10_000  # dispatcherRetryBackoffInitialTimeInMs, ...MaxTimeInMs


@dataclass(eq=False)
class NormalRead:
    """A read of the cursor; `parked` where it waits at the tail."""

    entries: int
    parked: bool = False


class ModelReads:
    """Reads and sends, one result at a time.

    Args:
        agenda: of the model.
        log: of the recorder, which gets publishes and dispatches.
        state: of the dispatcher.
        redelivered: how often each position was given back.

    Attributes:
        read_position: of the cursor.
    """

    def __init__(self, agenda: Agenda, log: Log, state: ModelState, redelivered: Mapping[int, int]) -> None:
        self._agenda, self._log, self._state, self._redelivered = agenda, log, state, redelivered
        self.read_position = 0
        self._mark_delete_seen = -1
        self._normal: NormalRead | None = None
        self._replaying = False
        self._generation = 0
        self._min_replayed: int | None = None
        self._rewind = False
        self._skip_replay = False
        self._skip_backoff = False
        self._backoff_us = BACKOFF_US[0]
        self._read_due = self._unblock_due = False

    def publish(self, key: bytes) -> None:
        """An entry is stored, and recorded."""
        self._log.publish(self._state.store(key), key)
        if self._normal is not None and self._normal.parked:
            self._normal.parked = False
            self._agenda.later(self._completer(self._normal))

    def first_joined(self) -> None:
        """Begins after mark-delete, once a normal read from before, whose result is dropped, is done."""
        self._rewind = self._normal is not None
        if not self._rewind:
            self.read_position = self._state.mark_delete + 1

    def last_left(self) -> None:
        """Drops what is under way."""
        if self._normal is not None and self._normal.parked:
            self._normal = None
        self._generation += 1

    def moved_to(self, position: int) -> None:
        """The cursor was moved; all before the position is acknowledged."""
        self._mark_delete_seen = position - 1

    def start_anew(self) -> None:
        """Forgets what is under way, as an unload does."""
        self._normal = None
        self._rewind = False

    def unblock(self) -> None:
        """Reads anew a little later (4.9)."""
        if self._unblock_due:
            return
        self._unblock_due = True

        def unblocks() -> None:
            self._unblock_due = False
            if self._normal is not None and self._normal.parked and self._state.replay:
                self._normal = None
            self.ask_to_read()

        self._agenda.at(self._agenda.now_us + self._state.unblocking_us, unblocks)

    def ask_to_read(self, in_us: int = 0) -> None:
        """Reads so much later, unless that is due."""
        if not self._read_due:
            self._read_due = True
            self._agenda.at(self._agenda.now_us + in_us, self._read)

    def _read(self) -> None:
        self._read_due = False
        if self._state.mark_delete != self._mark_delete_seen:
            self._mark_delete_seen = self._state.mark_delete
            self._state.replay = {p: h for p, h in self._state.replay.items() if p > self._state.mark_delete}
        first = next((c.permits for c in self._state.consumers if not c.blocked and c.permits > 0), 0)
        if first == 0 or self._replaying:
            return
        entries = min(max(first, sum(c.permits for c in self._state.consumers)), READ_BATCH)
        candidates = [] if self._skip_replay else self._candidates(entries)
        self._skip_replay = False
        if candidates:
            self._min_replayed = min(self._state.replay)
            unread = [p for p in candidates if p not in self._state.acked]
            for position in set(candidates) - set(unread):
                del self._state.replay[position]
            if not unread:
                self.ask_to_read()
                return
            self._replaying = True
            generation = self._generation
            self._agenda.later(lambda: self._replayed(unread, generation))
        elif self._normal is None:
            if not self._normal_read_allowed():
                self.ask_to_read(self._next_backoff_us())
                return
            self._min_replayed = min(self._state.replay, default=None)
            self._normal = NormalRead(min(entries, max(self._state.look_ahead_limit() - len(self._state.replay), 1)))
            self._agenda.later(self._completer(self._normal))

    def _completer(self, read: NormalRead) -> Callable[[], None]:
        """The ledger has the entries of a read, or parks it."""

        def completes() -> None:
            if self._normal is not read:
                return
            unread = [p for p in range(self.read_position, len(self._state.hashes)) if p not in self._state.acked]
            if not unread:
                read.parked = True
                return
            positions = unread[: read.entries]
            self.read_position = positions[-1] + 1
            self._agenda.later(lambda: self._done(read, positions))

        return completes

    def _done(self, read: NormalRead, positions: list[int]) -> None:
        if self._normal is not read:
            return
        self._normal = None
        if self._rewind:
            self._rewind = False
            self.read_position = self._state.mark_delete + 1
            self.ask_to_read()
        else:
            self._send(positions, normal=True)

    def _replayed(self, positions: list[int], generation: int) -> None:
        self._replaying = False
        if generation != self._generation:
            self.ask_to_read()
        else:
            self._send(positions, normal=False)

    def _normal_read_allowed(self) -> bool:
        state = self._state
        return len(state.replay) < state.look_ahead_limit() and any(state.room(c) > 0 for c in state.consumers)

    def _candidates(self, entries: int) -> list[int]:
        """What is in replay and may be sent (4.5)."""
        kept: list[int] = []
        room: dict[Consumer, int] = {}
        refused: set[int] = set()
        for position, sticky_hash in sorted(self._state.replay.items()):
            if len(kept) == entries:
                break
            if sticky_hash is None:
                kept.append(position)
            elif sticky_hash not in refused:
                owner = self._state.owner(sticky_hash)
                left = 0 if owner is None else room.setdefault(owner, self._state.room(owner))
                if owner is None or left <= 0 or self._state.should_block(owner, sticky_hash):
                    refused.add(sticky_hash)
                else:
                    room[owner] -= 1
                    kept.append(position)
        return kept

    def _send(self, positions: list[int], normal: bool) -> None:
        if not self._state.consumers:
            self.read_position = self._state.mark_delete + 1
            return
        first = min(self._state.replay, default=None)
        if first is not None and self._min_replayed is not None and first < self._min_replayed:
            for position in positions if normal else ():
                self._state.to_replay(position, self._state.hashes[position])
            self.ask_to_read()
            return
        groups = self._grouped(positions, normal)
        done_us = self._agenda.now_us
        for consumer, accepted in groups.items():
            for position in accepted:
                self._state.replay.pop(position, None)
                self._dispatch(consumer, position)
            done_us = max(done_us, consumer.down_us)
        if groups:
            self._skip_backoff = False
            self._backoff_us = BACKOFF_US[0]
            # All of it is written.
            self._agenda.at(done_us, self.ask_to_read)
        elif self._skip_backoff:
            self._skip_backoff = False
            self.ask_to_read()
        else:
            self.ask_to_read(self._next_backoff_us())

    def _next_backoff_us(self) -> int:
        wait_us, self._backoff_us = self._backoff_us, min(2 * self._backoff_us, BACKOFF_US[1])
        return wait_us

    def _grouped(self, positions: list[int], normal: bool) -> dict[Consumer, list[int]]:
        """What goes to whom; what may not goes to replay, and the rest of its hash with it."""
        groups: dict[Consumer, list[int]] = {}
        looks_ahead = len(self._state.replay) < self._state.look_ahead_limit()
        room: dict[Consumer, int] = {}
        refused: set[int] = set()
        blocked_by_hash: set[Consumer] = set()
        for position in positions:
            sticky_hash = self._state.hashes[position]
            owner = self._state.owner(sticky_hash)
            if owner is None:
                self._state.to_replay(position, sticky_hash)
                continue
            left = room.setdefault(owner, self._state.room(owner))
            if sticky_hash not in refused and left > 0:
                if self._can_dispatch(owner, sticky_hash, normal):
                    room[owner] -= 1
                    groups.setdefault(owner, []).append(position)
                    continue
                blocked_by_hash |= {owner} if normal else set()
            if self._state.bug is not Bug.NO_REPLAY_CHECK:
                refused.add(sticky_hash)
            self._state.to_replay(position, sticky_hash)
        unseen = any(self._state.room(consumer) > 0 for consumer in self._state.consumers if consumer not in room)
        more = self.read_position < len(self._state.hashes)
        if looks_ahead and more and not groups and (unseen or any(room[owner] > 0 for owner in blocked_by_hash)):
            self._skip_replay = self._skip_backoff = True
        return groups

    def _can_dispatch(self, owner: Consumer, sticky_hash: int, normal: bool) -> bool:
        if normal and self._state.bug is not Bug.NO_REPLAY_CHECK and sticky_hash in self._state.replay.values():
            return False
        return not self._state.should_block(owner, sticky_hash)

    def _dispatch(self, consumer: Consumer, position: int) -> None:
        consumer.pending[position] = self._state.hashes[position]
        consumer.permits -= 1
        limit = self._state.limits.unacked_per_consumer
        consumer.blocked |= bool(limit) and len(consumer.pending) >= limit
        times = self._redelivered.get(position, 0)
        self._log.dispatch(consumer.number, position, self._state.keys[position], phases="start", count=times)

        def arrives() -> None:
            self._log.dispatch(consumer.number, position, self._state.keys[position], phases="end", count=times)
            if position in consumer.pending:
                consumer.received.add(position)

        consumer.down_us = max(consumer.down_us, self._agenda.now_us + self._agenda.latency())
        self._agenda.at(consumer.down_us, arrives)
