"""Acknowledgements, redeliver commands, and moves of mark-delete by an administrator (contract 5)."""

from dispatch_audit.pipeline.simulate.dispatcher.clean_up import clean_up
from dispatch_audit.pipeline.simulate.dispatcher.read_loop import ReadLoop
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class Settlements:
    """Removes pending entries; an acknowledgement takes no lock, so it may come between any two other events."""

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy, loop: ReadLoop) -> None:
        self._state = state
        self._policy = policy
        self._loop = loop

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Takes permits from a client (contract 4.14)."""
        if consumer.flow(permits):
            self._state.total_permits += permits
            self._loop.read_soon()

    def acknowledge(self, consumer: Consumer, positions: list[int]) -> None:
        """Acknowledges whole entries, each by itself: the pending entry first, the cursor second (contract 5.2)."""
        state, policy, messages = self._state, self._policy, self._state.entries.messages
        pending, cursor = consumer.pending, state.cursor
        for position in positions:
            holder: Consumer | None = consumer
            sticky_hash = pending.pop(position, None)
            if sticky_hash is None:
                holder = next((other for other in state.consumers if position in other.pending), None)
                sticky_hash = -1 if holder is None else holder.pending.pop(position)
            if holder is not None:
                policy.removed_pending(holder, sticky_hash)
                self._lower(holder, 1 if messages is None else messages[position])
            if state.redelivery_counts:
                state.redelivery_counts.pop(position, None)
            if policy.holds:
                policy.holds.discard(position)
            if cursor.acknowledge(position):
                state.mark_delete_moved(True)

    def redeliver(self, consumer: Consumer, positions: list[int]) -> None:
        """Takes back entries that a consumer holds, others are ignored (contract 5.6)."""
        state = self._state
        queued = False
        for position in positions:
            sticky_hash = consumer.pending.pop(position, None)
            if sticky_hash is None:
                continue
            self._policy.removed_pending(consumer, sticky_hash)
            messages = state.entries.messages_in(position)
            consumer.unacked -= messages
            if state.count_unacked(-messages):
                self._loop.read_soon()
            if position in self._policy.holds:
                self._policy.take_back(position)
            elif position > state.cursor.mark_delete:
                state.replay.add(position)
            state.redelivery_counts[position] = state.redelivery_counts.get(position, 0) + 1
            queued = True
        # It is unblocked even if it held none of them (contract 4.14, 5.6).
        permits = consumer.unblock()
        state.total_permits += permits
        if queued or permits or state.switches.reads_at_redelivery:
            self._loop.read_soon()

    def move_mark_delete(self, position: int, expiry: bool) -> None:
        """Passes entries without an acknowledgement: expiry, skipping, clearing (contract 5.10)."""
        state = self._state
        if not state.cursor.move_mark_delete(position):
            return
        state.acked_while_held = True
        if state.switches.clean_up_in_read_loop:
            # Skipping and clearing ask for no read on 4.0.
            self._loop.mark_delete_moved = True
            if expiry:
                self._loop.unblocked()
        else:
            clean_up(state, self._policy)
            self._loop.read_soon()

    def _lower(self, holder: Consumer, messages: int) -> None:
        unblocked = holder.settled(messages)
        if unblocked:
            self._state.total_permits += holder.unblock()
        state = self._state
        state.unacked -= messages
        if state.blocked_on_unacked or state.unacked >= state.unacked_limit:
            unblocked |= state.count_unacked(0)
        if unblocked:
            # Even if no permits came while it was blocked: what waits for it can be sent (contract 4.1, 4.14).
            self._loop.read_soon()
