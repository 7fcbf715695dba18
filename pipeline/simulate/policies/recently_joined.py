"""The dispatcher of 3.x and the classic one of 4.x: recently joined consumers (contract 6), and PIP-282's rule."""

from bisect import bisect_right

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy, Grouped
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class RecentlyJoinedPolicy(DispatcherPolicy):
    """A newcomer is sent nothing from its position on until mark-delete has reached it; nothing drains.

    There is no look-ahead limit and no backoff, and an undeliverable head of replay blocks what comes after it (6.2).

    Attributes:
        recently: the recently joined consumers in the order of joining.
    """

    backs_off = False

    def __init__(self, state: DispatcherState) -> None:
        super().__init__(state)
        self.recently: dict[int, Consumer] = {}

    def replay_candidates(self, entries_max: int) -> list[int]:
        """Takes, of the first entries of replay, those that their owner may be sent; it looks no further (F6)."""
        state, replay = self.state, self.state.replay
        lowest = replay.lowest(entries_max)
        if not lowest:
            return []
        last = lowest[-1]
        by_owner: dict[int, list[int]] = {}
        # By owner, because most of the lowest ones may belong to a consumer that has no permits.
        for owner, queues in replay.by_owner.items():
            if owner != NOBODY and self._permits(state.by_number[owner]):
                found = [position for queue in queues.values() if queue.first <= last for position in queue.up_to(last)]
                if found:
                    by_owner[owner] = found
        for position in replay.bare[: bisect_right(replay.bare, last)]:
            owner = state.owner_of(state.hashes[position])
            if owner != NOBODY:
                by_owner.setdefault(owner, []).append(position)
        kept: list[int] = []
        for owner, positions in by_owner.items():
            positions.sort()
            kept += positions[: self._allowed(state.by_number[owner], positions, replay_read=True, any_in_replay=False)]
        return sorted(kept)

    def normal_read_allowed(self) -> bool:
        """Whether some consumer has permits and is not recently joined (6.2)."""
        return any(
            not consumer.blocked and consumer.permits > 0 and consumer.number not in self.recently
            for consumer in self.state.consumers
        )

    def group(self, entries: list[int], replay_read: bool) -> Grouped:
        """Gives each consumer the leading part of its entries that it may be sent; the rest goes to replay."""
        state = self.state
        by_owner: dict[int, list[int]] = {}
        for position in entries:
            by_owner.setdefault(state.owner_of(state.hashes[position]), []).append(position)
        groups: dict[int, list[int]] = {}
        for owner, positions in by_owner.items():
            if owner == NOBODY:
                allowed = 0
            else:
                waits = not replay_read and state.switches.replay_order_check
                any_in_replay = waits and any(state.hashes[p] in state.replay.by_hash for p in positions)
                allowed = self._allowed(state.by_number[owner], positions, replay_read, any_in_replay)
            if allowed:
                groups[owner] = positions[:allowed]
            for position in positions[allowed:]:
                state.wait_in_replay(position)
        return Grouped(groups, look_ahead=not groups and not self.recently)

    def joined(self, consumer: Consumer, before: dict[int, int]) -> None:
        """Marks a newcomer as recently joined if it is not alone and an entry that was read is not acknowledged."""
        state = self.state
        consumer.joined_at = self.position_at_join()
        # The cursor's count (6.1) goes from mark-delete to the read position, which it includes, published or not
        # (ManagedCursorImpl.getNumberOfEntriesSinceFirstNotAckedMessage, 4.2.4).
        since_first_unacknowledged = state.cursor.read_position - state.cursor.mark_delete
        if state.switches.recently_joined and len(state.consumers) > 1 and since_first_unacknowledged > 1:
            if state.switches.joins_in_order:
                self.recently[consumer.number] = consumer
            else:
                self.recently = {consumer.number: consumer, **self.recently}

    def left(self, consumer: Consumer, before: dict[int, int]) -> bool:
        """Removes a leaver from the list; clears the list if one consumer remains."""
        self.recently.pop(consumer.number, None)
        if len(self.state.consumers) == 1:
            self.recently.clear()
        return self.release() or bool(len(self.state.replay))

    def mark_delete_moved(self) -> bool:
        """Whether it released a consumer."""
        return self.release()

    def cleared(self) -> None:
        """Clears the list when the last consumer leaves."""
        self.recently.clear()

    def position_at_join(self) -> int:
        """The position from which on a newcomer must wait: the read position."""
        return self.state.cursor.read_position

    def below(self, consumer: Consumer, position: int, limit: int) -> bool:
        """Whether a recently joined consumer may have an entry."""
        return position < limit

    def is_released(self, consumer: Consumer) -> bool:
        """Whether mark-delete has reached the position at which the consumer joined."""
        return consumer.joined_at <= self.state.cursor.mark_delete + 1

    def release(self) -> bool:
        """Releases recently joined consumers from the oldest on, and stops at the first that must wait (F5).

        Returns:
            Whether it released any.
        """
        before = len(self.recently)
        for consumer in list(self.recently.values()):
            if not self.is_released(consumer):
                break
            del self.recently[consumer.number]
        return len(self.recently) < before

    def statistics(self, consumer: Consumer) -> dict[str, object]:
        """Where it joined, as an entry."""
        return {"read_position_when_joining": consumer.joined_at}

    def _allowed(self, consumer: Consumer, positions: list[int], replay_read: bool, any_in_replay: bool) -> int:
        """How many of its entries of a read a consumer may have (contract 6.1)."""
        allowed = min(len(positions), self._permits(consumer))
        if not allowed or any_in_replay:
            # One hash that waits in replay holds back all entries of the consumer in this read (F7).
            return 0
        self.release()
        if consumer.number not in self.recently:
            return allowed
        limit = consumer.joined_at
        if replay_read:
            limit = min(limit, next(iter(self.recently.values())).joined_at)
        for number, position in enumerate(positions[:allowed]):
            if not self.below(consumer, position, limit):
                return number
        return allowed

    @staticmethod
    def _permits(consumer: Consumer) -> int:
        permits = max(consumer.permits, 0)
        return min(permits, max(consumer.unacked_max - consumer.unacked, 0)) if consumer.unacked_max else permits


class LastSentPolicy(RecentlyJoinedPolicy):
    """PIP-282: a newcomer may be sent what was sent before it joined, whatever the read position is.

    All entries up to the last sent position were sent, and above it those of a set. Source: pip-282.md of the Pulsar
    repository, "Design & Implementation Details"; no release has it (contract 6.0).
    """

    def __init__(self, state: DispatcherState) -> None:
        super().__init__(state)
        self._last_sent = state.cursor.mark_delete
        self._above: set[int] = set()
        self._sent_at_join: dict[int, frozenset[int]] = {}

    def sent(self, entries: list[int]) -> None:
        """Advances the last sent position."""
        self._above.update(position for position in entries if position > self._last_sent)
        self._advance()

    def joined(self, consumer: Consumer, before: dict[int, int]) -> None:
        """Notes which entries were sent before the consumer joined."""
        self._advance()
        super().joined(consumer, before)
        self._sent_at_join[consumer.number] = frozenset(self._above)

    def cleared(self) -> None:
        """Restarts the last sent position at mark-delete, to which the cursor rewinds."""
        super().cleared()
        self._last_sent = self.state.cursor.mark_delete
        self._above.clear()
        self._sent_at_join.clear()

    def position_at_join(self) -> int:
        """The first position that was not sent."""
        return self._last_sent + 1

    def below(self, consumer: Consumer, position: int, limit: int) -> bool:
        """Whether the entry was sent before the consumer joined."""
        return position < limit or position in self._sent_at_join[consumer.number]

    def _advance(self) -> None:
        """Moves the last sent position past entries that were sent or are acknowledged."""
        above, acked = self._above, self.state.cursor.acked
        self._last_sent = max(self._last_sent, self.state.cursor.mark_delete)
        while (following := self._last_sent + 1) in above or acked[following]:
            above.discard(following)
            self._last_sent = following
