"""The dispatcher of 4.x: PIP-379's draining hashes, with the look-ahead limits of PR #23231 (contract 3, 4)."""

from heapq import heapify, heappop, heappush

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy, Grouped
from dispatch_audit.pipeline.simulate.state.agenda import NEVER
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState
from dispatch_audit.pipeline.simulate.state.draining_hashes import DrainingHashes
from dispatch_audit.pipeline.simulate.state.replay_queue import NO_HASH, HashQueue


class DrainingPolicy(DispatcherPolicy):
    """Holds entries back whose hash drains at another consumer.

    Attributes:
        draining: the draining hashes.
    """

    def __init__(self, state: DispatcherState) -> None:
        super().__init__(state)
        self.draining = DrainingHashes(self._unblocked)
        # The limit, and what it holds for: it is asked for several times a read.
        self._limit, self._limit_for, self._limit_of = 0, -1, state.settings

    def _unblocked(self) -> None:
        # Looked up when it happens, because the read loop sets it later.
        self.state.unblocked()

    # --- reading -----------------------------------------------------------------------------------------------------

    def replay_candidates(self, entries_max: int) -> list[int]:
        """Takes what its owner has permits for and what does not drain elsewhere (contract 4.5)."""
        state = self.state
        replay = state.replay
        if not state.switches.filtered_out_of_order:
            return replay.lowest(entries_max)
        heads: list[tuple[int, int, HashQueue | None, int]] = []
        rooms: dict[int, int] = {}
        for owner, queues in replay.by_owner.items():
            if owner == NOBODY:
                continue
            room = state.by_number[owner].available()
            if room > 0:
                rooms[owner] = room
                heads.extend((queue.first, 0, queue, owner) for queue in queues.values())
        # Entries without a hash are taken whether or not anybody has permits for them.
        if not rooms and not replay.bare:
            return []
        heads.extend((position, 0, None, NOBODY) for position in replay.bare[:entries_max])
        heapify(heads)
        taken: list[int] = []
        while heads and len(taken) < entries_max:
            position, number, queue, owner = heappop(heads)
            if queue is not None:
                if rooms[owner] <= 0:
                    continue
                # The broker asks for every entry, and refuses the rest of a hash after the first refusal.
                if self.draining.by_hash and self.draining.should_block(owner, queue.hash):
                    continue
                rooms[owner] -= 1
                following = queue.get(number + 1)
                if following is not None:
                    heappush(heads, (following, number + 1, queue, owner))
            taken.append(position)
        return taken

    def limit(self) -> int:
        """The effective look-ahead limit; 0: none."""
        consumers, settings = len(self.state.consumers), self.state.settings
        if consumers != self._limit_for or settings is not self._limit_of:
            self._limit, self._limit_for, self._limit_of = settings.look_ahead_limit(consumers), consumers, settings
        return self._limit

    def counted_in_replay(self) -> int:
        """The entries that count against the limit."""
        return len(self.state.replay.hash_of)

    def normal_read_allowed(self) -> bool:
        """Whether replay is below the limit, and a consumer that is not blocked has permits (contract 4.6)."""
        limit = self.limit()
        if limit and self.counted_in_replay() >= limit:
            return False
        return self.state.any_available()

    def normal_read_max(self, entries_max: int) -> int:
        """As many entries as the limit leaves, but at least one (contract 4.2)."""
        limit = self.limit()
        return min(entries_max, max(limit - self.counted_in_replay(), 1)) if limit else entries_max

    def replay_read_started(self, entries: list[int]) -> None:
        """Watches what is added to replay from now on, in versions that guard against it (contract 3.13)."""
        if self.state.switches.replay_addition_guard:
            self.state.replay.added = set()

    # --- choosing consumers ------------------------------------------------------------------------------------------

    def group(self, entries: list[int], replay_read: bool) -> Grouped:
        """Gives each entry to the owner of its hash, or puts it into replay (contract 4.11)."""
        state = self.state
        hashes, owners, replay, switches = state.hashes, state.owners, state.replay, state.switches
        draining = self.draining
        limit = self.limit()
        look_ahead_allowed = not limit or self.counted_in_replay() < limit
        added = self._added_in_flight() if replay_read else {}
        groups: dict[int, list[int]] = {}
        rooms: dict[int, int] = {}
        refused: set[int] = set()
        blocked_by_hash: set[int] = set()
        for position in entries:
            sticky_hash = hashes[position]
            if sticky_hash in refused:
                state.wait_in_replay(position)
                continue
            owner = owners.get(sticky_hash)
            if owner is None:
                owner = state.owner_of(sticky_hash)
            if owner != NOBODY:
                room = rooms.get(owner)
                if room is None:
                    room = state.by_number[owner].available()
                    rooms[owner] = room
                if room > 0:
                    # A normal read must not pass an entry of the hash that waits in replay.
                    if (
                        (not replay_read and switches.replay_order_check and sticky_hash in replay.by_hash)
                        or (draining.by_hash and draining.should_block(owner, sticky_hash))
                        or (added and self._passes(added, sticky_hash, position))
                    ):
                        if not replay_read:
                            blocked_by_hash.add(owner)
                    else:
                        rooms[owner] = room - 1
                        found = groups.get(owner)
                        if found is None:
                            groups[owner] = [position]
                        else:
                            found.append(position)
                        continue
            if switches.per_read_blocked_hashes:
                refused.add(sticky_hash)
            state.wait_in_replay(position)
        look_ahead = not groups and look_ahead_allowed and self._look_ahead(rooms, blocked_by_hash, replay_read)
        return Grouped(groups, look_ahead)

    def _look_ahead(self, rooms: dict[int, int], blocked_by_hash: set[int], replay_read: bool) -> bool:
        if self.state.switches.look_ahead_needs_backlog and not self.state.cursor.has_more:
            return False
        if not replay_read and any(rooms[owner] > 0 for owner in blocked_by_hash):
            return True
        return any(consumer.number not in rooms and consumer.available() > 0 for consumer in self.state.consumers)

    def _added_in_flight(self) -> dict[int, int]:
        """The lowest entry of each hash that entered replay while the replay read was in flight, and still waits."""
        replay = self.state.replay
        added, replay.added = replay.added, None
        lowest: dict[int, int] = {}
        for position in added or ():
            sticky_hash = replay.hash_of.get(position, NO_HASH)
            if sticky_hash != NO_HASH and position < lowest.get(sticky_hash, NEVER):
                lowest[sticky_hash] = position
        return lowest

    def _passes(self, added: dict[int, int], sticky_hash: int, position: int) -> bool:
        passes = added.get(sticky_hash, position) < position
        self.state.counters.guarded += passes
        return passes

    def refuses(self, consumer: Consumer, position: int) -> bool:
        """The race guard (contract 3.7)."""
        if not self.state.switches.race_guard:
            return False
        if consumer.closed:
            return True
        return bool(self.draining.by_hash) and self.draining.blocks(consumer.number, self.state.hashes[position])

    # --- membership and settling -------------------------------------------------------------------------------------

    def joined(self, consumer: Consumer, before: dict[int, int]) -> None:
        """Hashes that moved away from consumers with pending entries of them drain (contract 3.5)."""
        self._moved(before)

    def left(self, consumer: Consumer, before: dict[int, int]) -> bool:
        """The same for hashes that move between the consumers that remain."""
        self._moved(before)
        self.draining.cleared.pop(consumer.number, None)
        return False

    def removed_pending(self, consumer: Consumer, sticky_hash: int, closing: bool = False) -> None:
        """Counts down the draining hash, which may end its draining."""
        self.draining.remove_entry(consumer.number, sticky_hash, closing)

    def start_batch(self) -> None:
        """Holds notifications back until the batch ends."""
        self.draining.start_batch()

    def end_batch(self) -> None:
        """Sends one notification for the whole batch."""
        self.draining.end_batch()

    def cleared(self) -> None:
        """Drops all draining hashes, those of leavers included."""
        self.draining.clear()

    def statistics(self, consumer: Consumer) -> dict[str, object]:
        """The hashes that drain at a consumer."""
        own = self.draining.of_holder(consumer.number)
        return {
            "draining_hashes_count": len(own),
            "draining_hashes_cleared_total": self.draining.cleared.get(consumer.number, 0),
            "draining_hashes_unacked_messages": sum(found.entries for _, found in own),
            "draining_hashes": [
                {"hash": h, "unacked_messages": found.entries, "blocked_attempts": found.blocked_attempts}
                for h, found in own
            ],
        }

    def _moved(self, before: dict[int, int]) -> None:
        if not self.state.switches.draining:
            return
        returned: list[tuple[Consumer, int]] = []
        for consumer in self.state.consumers:
            for sticky_hash in consumer.pending.values():
                was, now = before[sticky_hash], self.state.owner_of(sticky_hash)
                if was == consumer.number != now:
                    self.draining.add_entry(consumer.number, sticky_hash)
                elif was != consumer.number == now and self.state.switches.eager_return:
                    returned.append((consumer, sticky_hash))
        for consumer, sticky_hash in returned:
            found = self.draining.by_hash.get(sticky_hash)
            if found is not None and found.holder == consumer.number:
                self.draining.remove_entry(consumer.number, sticky_hash)
