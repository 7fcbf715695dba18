"""Consumers join and leave a dispatcher (contract 3.5, 3.6, 6.1)."""

from dispatch_audit.pipeline.assignment.ranges.membership_change import DeclaredRanges
from dispatch_audit.pipeline.errors import AssignmentError
from dispatch_audit.pipeline.simulate.dispatcher.read_loop import ReadLoop
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class ConsumerChanges:
    """Adds and removes consumers, each as one action under the lock."""

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy, loop: ReadLoop) -> None:
        self._state = state
        self._policy = policy
        self._loop = loop

    def join(self, consumer: Consumer, ranges: DeclaredRanges | None = None) -> bool:
        """Adds a consumer; returns False if the selector refuses it."""
        state = self._state
        if not state.consumers:
            self._loop.rewind_at_join()
            state.replay.clear()
        before = self._owners_of_pending()
        try:
            state.selector.add(consumer.number, consumer.name, ranges)
        except AssignmentError:
            return False
        state.consumers.append(consumer)
        state.by_number[consumer.number] = consumer
        state.ownership_changed()
        self._policy.joined(consumer, before)
        return True

    def leave(self, consumer: Consumer) -> None:
        """Removes a consumer; what it holds goes to replay with its hash, unless it is the last one."""
        state, policy = self._state, self._policy
        before = self._owners_of_pending()
        state.selector.remove(consumer.number)
        state.consumers.remove(consumer)
        del state.by_number[consumer.number]
        state.ownership_changed()
        consumer.closed = True
        unblocked = state.count_unacked(-consumer.unacked)
        if not state.consumers:
            self._loop.cancel_normal_read()
            state.replay.clear()
            state.redelivery_counts.clear()
            if state.delayed is not None:
                state.delayed.clear()
            state.total_permits = 0
            state.unacked = 0
            state.blocked_on_unacked = False
            policy.cleared()
            return
        policy.start_batch()
        for position in sorted(consumer.pending):
            if position in policy.holds:
                policy.take_back(position)
            else:
                state.wait_in_replay(position)
            policy.removed_pending(consumer, consumer.pending[position], closing=True)
        policy.end_batch()
        queued = unblocked or bool(consumer.pending)
        consumer.pending.clear()
        state.total_permits -= consumer.permits
        if policy.left(consumer, before) or queued:
            self._loop.read_soon()

    def _owners_of_pending(self) -> dict[int, int]:
        """The owner of each hash with pending entries, before the change."""
        state = self._state
        held = {sticky_hash for consumer in state.consumers for sticky_hash in consumer.pending.values()}
        return {sticky_hash: state.owner_of(sticky_hash) for sticky_hash in held}
