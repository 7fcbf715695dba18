"""Releases what mark-delete has passed: entries in replay, and pending entries without an ack (contract 3.11)."""

from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


def clean_up(state: DispatcherState, policy: DispatcherPolicy) -> None:
    """Removes entries up to mark-delete from replay and from the consumers that hold them."""
    mark_delete = state.cursor.mark_delete
    state.replay.remove_up_to(mark_delete)
    if not state.acked_while_held:
        return
    acked, state.acked_while_held = state.cursor.acked, False
    for consumer in state.consumers:
        state.acked_while_held |= any(acked[position] for position in consumer.pending if position > mark_delete)
        passed = [p for p in consumer.pending if p <= mark_delete and p not in policy.holds]
        if not passed:
            continue
        policy.start_batch()
        for position in sorted(passed):
            sticky_hash = consumer.pending.pop(position)
            policy.removed_pending(consumer, sticky_hash)
            if not state.switches.clean_up_in_read_loop:
                messages = state.entries.messages_in(position)
                # The limits are looked at, and the caller reads (contract 3.11, 4.14).
                if consumer.settled(messages):
                    state.total_permits += consumer.unblock()
                state.count_unacked(-messages)
        policy.end_batch()
