"""What later dispatches are judged by: the first deliveries of a hash, and the redelivery count of an entry.

`rules/dispatch_rules.py` reads both before a dispatch takes effect; here the dispatch takes effect on them.
"""

from dispatch_audit.pipeline.replay.rules.dispatch_rules import is_first_delivery
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.state import NO_RESET, State


@compiled
def note_delivery(state: State, slot: int, sent: Dispatch, keeps_order: bool) -> None:
    """Notes a dispatch; call before it changes the marks of its entry.

    Args:
        state: the state before the dispatch takes effect.
        slot: the entry; its hash is known.
        sent: the dispatch.
        keeps_order: False where the subscription promises no order of a hash across consumers.
    """
    entries, hashes, at = state.entries, state.hashes, sent.hash_at
    if state.common[0].resetting != NO_RESET:
        entries[slot].redelivered = max(sent.redelivery_count, 0)
        return
    if sent.redelivery_count >= 0:
        # Continue from the reported count, so that one error is one finding.
        entries[slot].redelivered = sent.redelivery_count
    if not is_first_delivery(entries[slot].marks) or not keeps_order:
        return
    if (sent.ledger, sent.entry) > (hashes[at].top_ledger, hashes[at].top_entry):
        hashes[at].top_ledger = sent.ledger
        hashes[at].top_entry = sent.entry
        hashes[at].top_seq = sent.seq
        hashes[at].top_ts = sent.ts_us
        hashes[at].top_consumer = sent.consumer
        hashes[at].top_key_id = sent.key_id
