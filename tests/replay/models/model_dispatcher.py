"""A dispatcher that keeps its promise, with a recorder and clients: 4.0.8, AUTO_SPLIT, ordered (contract 11).

Everything happens at a moment of simulated time, under the lock where the broker has one, and takes a latency that the
caller draws: of a read, of a command on its way, of a message to its client. These are the source of all races.

What it leaves out: batches, delayed delivery, expiry and the like, read failures. In four things it is better than the
4.0.8 of the contract, which breaks its promise there: what a replay read brings that began before the last consumer
left is dropped, as from 5.0.1 on (3.12), else the rewound cursor reads those entries once more; it looks ahead only
where there is something to read, as from 4.2.4 on (3.11); a leave always asks for a read, else what waited for a leaver
that held nothing waits until somebody else asks for one (3.6); results are dispatched one at a time, so that no two
replay reads overlap (6.6). A `Bug` takes one safeguard away.
"""

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import count, cycle
from typing import NamedTuple

from local_replay import Log

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for
from dispatch_audit.pipeline.errors import AssignmentError
from dispatch_audit.pipeline.replay.packing.membership_rows import CLOSED_BY_BROKER
from dispatch_audit.pipeline.replay.settings.broker_limits import limits_of
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

READ_BATCH = 100  # dispatcherMaxReadBatchSize
BACKOFF_US = 1_000, 10_000  # dispatcherRetryBackoffInitialTimeInMs, ...MaxTimeInMs
LEDGER = 1


class Bug(Enum):
    """One safeguard less."""

    NO_DRAINING = auto()  # nobody asks whether another consumer still holds the hash
    NO_REPLAY_CHECK = auto()  # a normal read asks neither for entries of the hash in replay nor for those just refused
    EARLY_UNBLOCK = auto()  # the first acknowledgement ends the draining of its hash
    DOUBLE_REGISTRATION = auto()  # a hash that returns is not taken off the list of draining ones (3.9; to 4.0.6)
    WRONG_OWNER = auto()  # who came first is sent everything, whatever the selector says


class Bracket(NamedTuple):
    """How a membership change gets into the trace.

    Attributes:
        sides: that are recorded: "start end", "start" or "end".
        before_us: from the start to the moment of the change; None: a latency.
        after_us: from there to the end; None: a latency.
    """

    sides: str = "start end"
    before_us: int | None = None
    after_us: int | None = None


AS_IT_COMES = Bracket()


class Change(NamedTuple):
    """A membership change when it happened, and what it made of the assignment.

    Attributes:
        seq: of the last row before it.
        kind: "join" or "leave".
        number: of the consumer.
        ranges: by consumer, of all who are there now.
    """

    seq: int
    kind: str
    number: int
    ranges: Mapping[int, list[tuple[int, int]]]


@dataclass
class Draining:
    """A hash that another consumer still holds entries of (3.4)."""

    holder: "Consumer"
    entries: int = 0
    blocked: int = 0


@dataclass(eq=False)
class Consumer:
    """A consumer, and its client.

    Attributes:
        number: in the trace.
        permits: messages that it asked for and was not sent.
        withheld: asked for while it was blocked (4.14).
        blocked: it has had too much unacknowledged.
        pending: hash by position.
        received: what the client has, and has neither acknowledged nor given back.
        up_us: when the last of its commands takes effect, for they do so in their order.
        down_us: when the last message to it arrives.
        open: it is connected, knows it, and has not asked to be closed.
        name: as the client gave it.
        ranges: what a STICKY consumer declares.
        leaving: its client asked the broker to close it.
        unrecorded: writes the end of its join, which is still to come.
    """

    number: int
    name: str
    ranges: Sequence[tuple[int, int]] = ()
    permits: int = 0
    withheld: int = 0
    blocked: bool = False
    pending: dict[int, int] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    up_us: int = 0
    down_us: int = 0
    open: bool = True
    leaving: bool = False
    unrecorded: Callable[[], None] | None = None


@dataclass(eq=False)
class NormalRead:
    """A read of the cursor; `parked` where it waits at the tail."""

    entries: int
    parked: bool = False


class ModelDispatcher:
    """One subscription and its topic; writes `log` as a recorder in the broker does."""

    def __init__(
        self,
        latencies_us: Sequence[int],
        settings: Mapping[str, object],
        version: str = "4.0.8",
        bug: Bug | None = None,
        sticky: bool = False,
    ) -> None:
        """Takes the latencies, of which it uses one after the other, over and over, and the broker's settings.

        `sticky`: consumers declare their ranges.
        """
        profile = profile_for(version, settings)
        broker = profile.broker(settings)
        kind: SelectorKind = "auto_split"
        if sticky:
            kind = "exclusive"
        elif broker["subscriptionKeySharedUseConsistentHashing"]:
            kind = "consistent_hashing"
        points = int(str(broker["subscriptionKeySharedConsistentHashingReplicaPoints"]))
        self.log = Log(step_us=0)
        self.consumers: list[Consumer] = []
        self.keys: list[bytes] = []
        self.acked: set[int] = set()
        self.membership_changes = 0
        self.changes: list[Change] = []
        self.changed: Callable[[], None] = lambda: None
        self._hash_rule = profile.hash[kind]
        self._new_selector = partial(make_selector, kind, points, profile)
        self._selector = self._new_selector()
        self._resetting = self._fenced = False
        self._behind_reset: list[Callable[[], None]] = []
        self._limits = limits_of(broker, looks_ahead=True)
        self._unblocking_us = int(str(broker.get("keySharedUnblockingIntervalMs", 10))) * 1000
        self._bug = bug
        self._latencies_us = cycle(latencies_us)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self.hashes: list[int] = []
        self._joined = 0
        self._mark_delete = -1
        self._mark_delete_seen = -1
        self._read_position = 0
        self._replay: dict[int, int | None] = {}
        self._redelivered: dict[int, int] = {}
        self._draining: dict[int, Draining] = {}
        self._normal: NormalRead | None = None
        self._replaying = False
        self._generation = 0
        self._min_replayed: int | None = None
        self._rewind = False
        self._skip_replay = False
        self._skip_backoff = False
        self._backoff_us = BACKOFF_US[0]
        self._read_due = self._unblock_due = False

    # What happens outside of the broker.

    def run(self, for_us: int) -> None:
        """Lets time pass."""
        until_us = self.log.now_us + for_us
        while self._events and self._events[0][0] <= until_us:
            self.log.now_us, _, happens = heapq.heappop(self._events)
            happens()
        self.log.now_us = until_us

    def publish(self, key: bytes) -> None:
        """An entry is stored, and recorded."""
        self.keys.append(key)
        self.hashes.append(int(sticky_hashes([key], self._hash_rule)[0]))
        self.log.publish(len(self.keys) - 1, key)
        if self._normal is not None and self._normal.parked:
            self._normal.parked = False
            self._later(self._completer(self._normal))

    def join(
        self,
        permits: int,
        bracket: Bracket = AS_IT_COMES,
        name: str | None = None,
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        """A client connects and asks for its first messages; called `c<number>` unless it has a name.

        Where a reset is under way it connects behind it.
        """
        if self._resetting:
            self._behind_reset.append(lambda: self.join(permits, bracket, name, ranges))
            return
        self._joined += 1
        self.membership_changes += 1
        consumer = Consumer(self._joined, name or f"c{self._joined}", ranges)
        written = len(self.log.rows)
        self._record_join(consumer, bracket, "start")

        def joins() -> None:
            consumer.up_us = consumer.down_us = self.log.now_us
            try:
                if self._fenced:
                    self._behind_reset.append(lambda: self.join(permits, bracket, name, ranges))
                    raise AssignmentError("the subscription is fenced")
                self._add_consumer(consumer)
            except AssignmentError:
                self.membership_changes -= 1
                for row in self.log.rows[written:]:
                    if row.get("consumer") == consumer.number:
                        # The broker refused it, so no consumer came of it.
                        row["consumer"] = None
                return
            consumer.unrecorded = ends
            self._later(ends, bracket.after_us)

        def ends() -> None:
            if consumer.unrecorded is not None:
                consumer.unrecorded = None
                self._record_join(consumer, bracket, "end")
                self.membership_changes -= 1
                self.flow(consumer, permits)

        self._later(joins, bracket.before_us)

    def _record_join(self, consumer: Consumer, bracket: Bracket, phase: str) -> None:
        if phase in bracket.sides.split():
            self.log.join(consumer.number, phases=phase, name=consumer.name, ranges=consumer.ranges)

    def leave(self, consumer: Consumer, bracket: Bracket = AS_IT_COMES) -> None:
        """A client closes its consumer."""
        consumer.open = False
        self.membership_changes += 1

        def arrives() -> None:
            if consumer not in self.consumers:
                self.membership_changes -= 1
                return
            consumer.leaving = True
            self._record_leave(consumer, bracket, "start")
            consumer.up_us = max(consumer.up_us, self.log.now_us + self._latency(bracket.before_us))
            self._at(consumer.up_us, leaves)

        def leaves() -> None:
            if consumer in self.consumers:
                self._remove_consumer(consumer)
            self._later(ends, bracket.after_us)

        def ends() -> None:
            self._record_leave(consumer, bracket, "end")
            self.membership_changes -= 1

        self._at(max(consumer.up_us, self.log.now_us + next(self._latencies_us)), arrives)

    def _record_leave(self, consumer: Consumer, bracket: Bracket, phase: str) -> None:
        if phase in bracket.sides.split():
            self.log.leave(consumer.number, phases=phase)

    def close(self, consumer: Consumer, late_us: int) -> None:
        """The broker closes a consumer; the one row about it comes so much later, or earlier if negative."""
        consumer.open = False
        self.membership_changes += 1

        def closes() -> None:
            if consumer in self.consumers:
                self._remove_consumer(consumer)

        def is_recorded() -> None:
            if consumer.unrecorded is not None:
                consumer.unrecorded()
            if not consumer.leaving:
                self.log.leave(consumer.number, phases="start", reason=CLOSED_BY_BROKER)
            self.membership_changes -= 1

        self._at(self.log.now_us + max(-late_us, 0), closes)
        self._at(self.log.now_us + max(late_us, 0), is_recorded)

    def reset(self, reason: str, closes_us: Sequence[tuple[int, int]], to: int | None = None) -> None:
        """All consumers are closed and everything starts anew.

        Args:
            reason: "seek" or "unload".
            closes_us: of each consumer, when it is closed, and how much later that is recorded (`close`).
            to: the position to go on from; None: behind what is acknowledged.
        """
        self._resetting = True
        self.membership_changes += 1
        self.log.reset(reason, phases="start")

        def begins() -> None:
            self._fenced = True
            over_us = 0
            for consumer, (at_us, late_us) in zip(list(self.consumers), closes_us, strict=False):
                self._later(partial(self.close, consumer, late_us), at_us)
                over_us = max(over_us, at_us + abs(late_us))
            self._later(starts_anew, over_us)

        def starts_anew() -> None:
            for consumer in list(self.consumers):
                self.close(consumer, 0)
            # They are closed by then, for what is due at once happens in the order of being asked for.
            self._later(moves, 0)

        def moves() -> None:
            if reason == "unload":
                self._selector = self._new_selector()
                self._normal = None
                self._rewind = False
            if to is not None:
                self.acked = set(range(to))
                self._mark_delete = self._mark_delete_seen = to - 1
            self._resetting = self._fenced = False
            behind, self._behind_reset = self._behind_reset, []
            for joins in behind:
                self._later(joins)
            self._later(ends)

        def ends() -> None:
            self.log.reset(reason, phases="end")
            self.membership_changes -= 1

        self._later(begins)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """A client asks for messages."""

        def arrives() -> None:
            self.log.write("flow", consumer=consumer.number, permits=permits)

        def grants() -> None:
            if consumer in self.consumers:
                self._grant(consumer, permits)

        self._command(consumer, arrives, grants)

    def ack(self, consumer: Consumer, *positions: int) -> None:
        """A client acknowledges what it has received."""
        consumer.received -= set(positions)

        def arrives() -> None:
            self.log.ack(consumer.number, *positions, phases="start")

        def acks_end() -> None:
            self.log.ack(consumer.number, *positions, phases="end")

        def acks() -> None:
            if consumer in self.consumers:
                for position in positions:
                    self._acknowledge(consumer, position)
                self._later(acks_end)

        self._command(consumer, arrives, acks)

    def give_back(self, consumer: Consumer, *positions: int) -> None:
        """A client gives back what it has received; all that the broker holds for it if nothing is named.

        Takes effect when it arrives: no row says when it did, and what is sent in between may be given back as well.
        """
        consumer.received -= set(positions or consumer.received)

        def arrives() -> None:
            self.log.redeliver(consumer.number, *positions)
            self._redeliver(consumer, positions)

        self._command(consumer, arrives, lambda: None)

    def snapshot_in(self, us: int) -> None:
        """The broker will be asked how it stands."""
        self._later(self.snapshot, us)

    def snapshot(self) -> None:
        """The broker says how it stands (7)."""
        seq = len(self.log.rows)
        owned = self._ranges()
        told = {
            "seq_begin": seq,
            "seq_end": seq,
            "msg_in_replay": len(self._replay),
            "read_position": f"{LEDGER}:{self._read_position}",
            "mark_delete_position": f"{LEDGER}:{self._mark_delete}",
            "consumers": [
                {
                    "consumer": c.number,
                    "available_permits": c.permits,
                    "unacked_messages": len(c.pending),
                    "key_hash_ranges": owned.get(c.number, []),
                    "draining_hashes": [
                        {"hash": h, "unacked_messages": d.entries} for h, d in self._draining.items() if d.holder is c
                    ],
                }
                for c in self.consumers
            ],
        }
        self.log.write("stats", snapshot=json.dumps(told))

    def _ranges(self) -> dict[int, list[tuple[int, int]]]:
        owned: dict[int, list[tuple[int, int]]] = {consumer.number: [] for consumer in self.consumers}
        for start, end, number in self._selector.ranges():
            owned[number].append((start, end))
        return owned

    # Time.

    def _at(self, us: int, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (us, next(self._numbers), happens))

    def _later(self, happens: Callable[[], None], in_us: int | None = None) -> None:
        self._at(self.log.now_us + self._latency(in_us), happens)

    def _latency(self, us: int | None = None) -> int:
        return next(self._latencies_us) if us is None else us

    def _command(self, consumer: Consumer, arrives: Callable[[], None], takes_effect: Callable[[], None]) -> None:
        """The commands of a client are handled one after the other; the broker does not know one that it closed."""

        def arrives_if_there() -> None:
            if consumer in self.consumers:
                arrives()

        arrives_us = max(consumer.up_us, self.log.now_us + next(self._latencies_us))
        consumer.up_us = arrives_us + next(self._latencies_us)
        self._at(arrives_us, arrives_if_there)
        self._at(consumer.up_us, takes_effect)

    # Consumers come and go (3.5, 3.6).

    def _note(self, kind: str, consumer: Consumer) -> None:
        self.changes.append(Change(len(self.log.rows), kind, consumer.number, self._ranges()))
        self.changed()

    def _add_consumer(self, consumer: Consumer) -> None:
        before = self._owners()
        self._selector.add(consumer.number, consumer.name, consumer.ranges)
        if not self.consumers:
            # A normal read from before is dropped when it is done, and then the cursor rewinds.
            self._rewind = self._normal is not None
            if not self._rewind:
                self._read_position = self._mark_delete + 1
            self._replay.clear()
        self.consumers.append(consumer)
        self._drain_what_moved(before)
        self._note("join", consumer)

    def _remove_consumer(self, leaver: Consumer) -> None:
        before = self._owners()
        self._selector.remove(leaver.number)
        self.consumers.remove(leaver)
        if not self.consumers:
            if self._normal is not None and self._normal.parked:
                self._normal = None
            self._replay.clear()
            self._redelivered.clear()
            self._draining.clear()
            self._generation += 1
            self._note("leave", leaver)
            return
        for position, sticky_hash in sorted(leaver.pending.items()):
            self._to_replay(position, sticky_hash)
            self._reduce(leaver, sticky_hash, closing=True)
        leaver.pending.clear()
        self._ask_to_read()
        self._drain_what_moved(before)
        self._note("leave", leaver)

    def _owners(self) -> dict[int, int | None]:
        return {h: self._selector.select(h) for h in set(self.hashes)}

    def _drain_what_moved(self, before: dict[int, int | None]) -> None:
        for holder in self.consumers:
            moved = [h for h in holder.pending.values() if holder.number == before[h] != self._selector.select(h)]
            for sticky_hash in moved:
                self._draining.setdefault(sticky_hash, Draining(holder)).entries += 1
        if self._bug is Bug.DOUBLE_REGISTRATION:
            return
        for holder in self.consumers:
            returned = [h for h in holder.pending.values() if before[h] != self._selector.select(h) == holder.number]
            for sticky_hash in returned:
                self._reduce(holder, sticky_hash)

    # Draining (3.4).

    def _reduce(self, holder: Consumer, sticky_hash: int, closing: bool = False) -> None:
        draining = self._draining.get(sticky_hash)
        if draining is None or draining.holder is not holder:
            return
        draining.entries -= 1
        if draining.entries == 0 or self._bug is Bug.EARLY_UNBLOCK:
            del self._draining[sticky_hash]
            if draining.blocked and not closing:
                self._unblock()

    def _should_block(self, owner: Consumer, sticky_hash: int) -> bool:
        draining = self._draining.get(sticky_hash)
        if draining is None or self._bug is Bug.NO_DRAINING:
            return False
        if draining.holder is owner:
            del self._draining[sticky_hash]
            return False
        draining.blocked += 1
        return True

    def _unblock(self) -> None:
        """Reads anew a little later (4.9)."""
        if self._unblock_due:
            return
        self._unblock_due = True

        def unblocks() -> None:
            self._unblock_due = False
            if self._normal is not None and self._normal.parked and self._replay:
                self._normal = None
            self._ask_to_read()

        self._at(self.log.now_us + self._unblocking_us, unblocks)

    # Acknowledgements, permits, redelivery (4.14, 5).

    def _acknowledge(self, consumer: Consumer, position: int) -> None:
        sticky_hash = consumer.pending.pop(position, None)
        if sticky_hash is not None:
            self._reduce(consumer, sticky_hash)
            if consumer.blocked and len(consumer.pending) <= self._limits.unacked_per_consumer // 2:
                self._grant_withheld(consumer)
        self.acked.add(position)
        self._redelivered.pop(position, None)
        before = self._mark_delete
        while self._mark_delete + 1 in self.acked:
            self._mark_delete += 1
        if self._mark_delete != before:
            self._unblock()

    def _grant(self, consumer: Consumer, permits: int) -> None:
        limit = self._limits.unacked_per_consumer
        if limit and len(consumer.pending) >= limit:
            consumer.blocked = True
        if consumer.blocked:
            consumer.withheld += permits
        else:
            consumer.permits += permits
            self._ask_to_read()

    def _grant_withheld(self, consumer: Consumer) -> None:
        consumer.blocked = False
        consumer.permits += consumer.withheld
        consumer.withheld = 0
        self._ask_to_read()

    def _redeliver(self, consumer: Consumer, positions: Sequence[int]) -> None:
        held = [p for p in positions or sorted(consumer.pending) if p in consumer.pending]
        for position in held:
            self._reduce(consumer, consumer.pending.pop(position))
            consumer.received.discard(position)
            self._to_replay(position, None)
            self._redelivered[position] = self._redelivered.get(position, 0) + 1
        self._grant_withheld(consumer)

    def _to_replay(self, position: int, sticky_hash: int | None) -> None:
        if position > self._mark_delete:
            # Added without a hash, what has one keeps it (4.12).
            self._replay[position] = self._replay.get(position) if sticky_hash is None else sticky_hash

    # Reading (4.2).

    def _ask_to_read(self, in_us: int = 0) -> None:
        if not self._read_due:
            self._read_due = True
            self._at(self.log.now_us + in_us, self._read)

    def _read(self) -> None:
        self._read_due = False
        if self._mark_delete != self._mark_delete_seen:
            self._mark_delete_seen = self._mark_delete
            self._replay = {p: h for p, h in self._replay.items() if p > self._mark_delete}
        first = next((c.permits for c in self.consumers if not c.blocked and c.permits > 0), 0)
        if first == 0 or self._replaying:
            return
        entries = min(max(first, sum(c.permits for c in self.consumers)), READ_BATCH)
        candidates = [] if self._skip_replay else self._candidates(entries)
        self._skip_replay = False
        if candidates:
            self._min_replayed = min(self._replay)
            unread = [p for p in candidates if p not in self.acked]
            for position in set(candidates) - set(unread):
                del self._replay[position]
            if not unread:
                self._ask_to_read()
                return
            self._replaying = True
            generation = self._generation
            self._later(lambda: self._replayed(unread, generation))
        elif self._normal is None:
            if not self._normal_read_allowed():
                self._ask_to_read(self._next_backoff_us())
                return
            self._min_replayed = min(self._replay, default=None)
            self._normal = NormalRead(min(entries, max(self._look_ahead_limit() - len(self._replay), 1)))
            self._later(self._completer(self._normal))

    def _completer(self, read: NormalRead) -> Callable[[], None]:
        """The ledger has the entries of a read, or parks it."""

        def completes() -> None:
            if self._normal is not read:
                return
            unread = [p for p in range(self._read_position, len(self.hashes)) if p not in self.acked]
            if not unread:
                read.parked = True
                return
            positions = unread[: read.entries]
            self._read_position = positions[-1] + 1
            self._later(lambda: self._done(read, positions))

        return completes

    def _done(self, read: NormalRead, positions: list[int]) -> None:
        if self._normal is not read:
            return
        self._normal = None
        if self._rewind:
            self._rewind = False
            self._read_position = self._mark_delete + 1
            self._ask_to_read()
        else:
            self._send(positions, normal=True)

    def _replayed(self, positions: list[int], generation: int) -> None:
        self._replaying = False
        if generation != self._generation:
            self._ask_to_read()
        else:
            self._send(positions, normal=False)

    def _look_ahead_limit(self) -> int:
        limit = self._limits.look_ahead(len(self.consumers))
        assert limit is not None
        return limit

    def _normal_read_allowed(self) -> bool:
        return len(self._replay) < self._look_ahead_limit() and any(self._room(c) > 0 for c in self.consumers)

    def _room(self, consumer: Consumer) -> int:
        """Entries that it may be sent (4.8)."""
        limit = self._limits.unacked_per_consumer
        return max(min(consumer.permits, limit - len(consumer.pending) if limit else consumer.permits), 0)

    def _candidates(self, entries: int) -> list[int]:
        """What is in replay and may be sent (4.5)."""
        kept: list[int] = []
        room: dict[Consumer, int] = {}
        refused: set[int] = set()
        for position, sticky_hash in sorted(self._replay.items()):
            if len(kept) == entries:
                break
            if sticky_hash is None:
                kept.append(position)
            elif sticky_hash not in refused:
                owner = self._owner(sticky_hash)
                left = 0 if owner is None else room.setdefault(owner, self._room(owner))
                if owner is None or left <= 0 or self._should_block(owner, sticky_hash):
                    refused.add(sticky_hash)
                else:
                    room[owner] -= 1
                    kept.append(position)
        return kept

    def _owner(self, sticky_hash: int) -> Consumer | None:
        """Nobody, where nobody declared the hash."""
        if self._bug is Bug.WRONG_OWNER:
            return self.consumers[0]
        number = self._selector.select(sticky_hash)
        return next((consumer for consumer in self.consumers if consumer.number == number), None)

    # Dispatching (4.10, 4.11).

    def _send(self, positions: list[int], normal: bool) -> None:
        if not self.consumers:
            self._read_position = self._mark_delete + 1
            return
        first = min(self._replay, default=None)
        if first is not None and self._min_replayed is not None and first < self._min_replayed:
            for position in positions if normal else ():
                self._to_replay(position, self.hashes[position])
            self._ask_to_read()
            return
        groups = self._grouped(positions, normal)
        done_us = self.log.now_us
        for consumer, accepted in groups.items():
            for position in accepted:
                self._replay.pop(position, None)
                self._dispatch(consumer, position)
            done_us = max(done_us, consumer.down_us)
        if groups:
            self._skip_backoff = False
            self._backoff_us = BACKOFF_US[0]
            # All of it is written.
            self._at(done_us, self._ask_to_read)
        elif self._skip_backoff:
            self._skip_backoff = False
            self._ask_to_read()
        else:
            self._ask_to_read(self._next_backoff_us())

    def _next_backoff_us(self) -> int:
        wait_us, self._backoff_us = self._backoff_us, min(2 * self._backoff_us, BACKOFF_US[1])
        return wait_us

    def _grouped(self, positions: list[int], normal: bool) -> dict[Consumer, list[int]]:
        """What goes to whom; what may not goes to replay, and the rest of its hash with it."""
        groups: dict[Consumer, list[int]] = {}
        looks_ahead = len(self._replay) < self._look_ahead_limit()
        room: dict[Consumer, int] = {}
        refused: set[int] = set()
        blocked_by_hash: set[Consumer] = set()
        for position in positions:
            sticky_hash = self.hashes[position]
            owner = self._owner(sticky_hash)
            if owner is None:
                self._to_replay(position, sticky_hash)
                continue
            left = room.setdefault(owner, self._room(owner))
            if sticky_hash not in refused and left > 0:
                if self._can_dispatch(owner, sticky_hash, normal):
                    room[owner] -= 1
                    groups.setdefault(owner, []).append(position)
                    continue
                blocked_by_hash |= {owner} if normal else set()
            if self._bug is not Bug.NO_REPLAY_CHECK:
                refused.add(sticky_hash)
            self._to_replay(position, sticky_hash)
        unseen = any(self._room(consumer) > 0 for consumer in self.consumers if consumer not in room)
        more = self._read_position < len(self.hashes)
        if looks_ahead and more and not groups and (unseen or any(room[owner] > 0 for owner in blocked_by_hash)):
            self._skip_replay = self._skip_backoff = True
        return groups

    def _can_dispatch(self, owner: Consumer, sticky_hash: int, normal: bool) -> bool:
        if normal and self._bug is not Bug.NO_REPLAY_CHECK and sticky_hash in self._replay.values():
            return False
        return not self._should_block(owner, sticky_hash)

    def _dispatch(self, consumer: Consumer, position: int) -> None:
        consumer.pending[position] = self.hashes[position]
        consumer.permits -= 1
        limit = self._limits.unacked_per_consumer
        consumer.blocked |= bool(limit) and len(consumer.pending) >= limit
        times = self._redelivered.get(position, 0)
        self.log.dispatch(consumer.number, position, self.keys[position], phases="start", count=times)

        def arrives() -> None:
            self.log.dispatch(consumer.number, position, self.keys[position], phases="end", count=times)
            if position in consumer.pending:
                consumer.received.add(position)

        consumer.down_us = max(consumer.down_us, self.log.now_us + next(self._latencies_us))
        self._at(consumer.down_us, arrives)
