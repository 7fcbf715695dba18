"""The limit of unacknowledged messages of a consumer: dispatches beyond it (contract 4.8)."""

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report
from dispatch_audit.pipeline.replay.rules.limits_contradicted import FAR, count_pass, weigh
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import OF_CONSUMER, Output
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByLimits
from dispatch_audit.pipeline.replay.state.values import CLAIM_STANDS


@compiled
def _largest_batch(state: Seen, slot: int, consumer: int) -> int:
    """The most messages in an entry that a consumer was sent, this entry included."""
    return int(max(state.limits.consumers[consumer].largest, state.entries[slot].messages))


@compiled
def _certainly_unacked(state: Seen, consumer: int) -> int:
    """The certainly unacknowledged messages of a consumer; the broker may have dropped skipped ones (E6)."""
    return int(state.consumers[consumer].unacked - state.consumers[consumer].maybe_skipped)


@compiled
def _room(state: Seen, consumer: int) -> int:
    """The messages that a consumer may be sent until it certainly is at its limit; below 0: it is beyond."""
    return int(state.common[0].unacked_max - _certainly_unacked(state, consumer))


@compiled
def _granted(state: Seen, sent: Dispatch) -> int:
    """The entries that reads in flight may still send to a consumer.

    A read grants as many entries as the consumer has room for messages (4.8, 6.1), and each may be a batch.
    """
    room, limits = _room(state, sent.consumer), state.limits.consumers
    if sent.ts_us - limits[sent.consumer].granted_ts > READ_AND_PAUSE_US:
        return room
    return max(room, int(limits[sent.consumer].granted))


@compiled
def _passes(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether a dispatch goes beyond what the limit of its consumer allows."""
    if state.common[0].unacked_max <= 0 or state.limits.claims[OF_CONSUMER].claim != CLAIM_STANDS:
        return False
    return bool(state.entries[slot].holder < 0 and _granted(state, sent) <= 0)


@compiled
def _note_granted(state: SeenByLimits, sent: Dispatch) -> None:
    """Subtracts a dispatch from the entries that its consumer was granted."""
    limits, granted = state.limits.consumers, _granted(state, sent)
    if granted == _room(state, sent.consumer):
        limits[sent.consumer].granted_ts = sent.ts_us
    limits[sent.consumer].granted = granted - 1


@compiled
def check_limit_of_consumer(state: Seen, out: Output, slot: int, sent: Dispatch) -> None:
    """Checks the limit, unless its claim is contradicted."""
    if _passes(state, slot, sent):
        row = report(state, out, UNACKED_LIMIT, slot, sent)
        out.findings[row].value = _certainly_unacked(state, sent.consumer) + state.entries[slot].messages
        out.findings[row].expected = state.common[0].unacked_max
        out.findings[row].said = state.common[0].consumer_said
        out.findings[row].largest = _largest_batch(state, slot, sent.consumer)


@compiled
def note_limit_of_consumer(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Notes whether a dispatch respects the limit; call after the rules and before it takes effect."""
    limits, claims, consumer = state.limits.consumers, state.limits.claims, sent.consumer
    limits[consumer].largest = _largest_batch(state, slot, consumer)
    stands = state.common[0].unacked_max > 0 and claims[OF_CONSUMER].claim == CLAIM_STANDS
    if not stands or state.entries[slot].holder >= 0:
        return
    passes = _passes(state, slot, sent)
    _note_granted(state, sent)
    if not passes:
        return
    messages = _certainly_unacked(state, consumer) + state.entries[slot].messages
    # Each later read is another pass, unless a row states the limit: then the broker breaks it once for a while.
    again = state.common[0].consumer_said == 0 and sent.ts_us - limits[consumer].passed_ts > READ_AND_PAUSE_US
    if limits[consumer].passing == 0 or again:
        limits[consumer].passing = 1
        limits[consumer].passed_ts = sent.ts_us
        count_pass(state, OF_CONSUMER, sent)
    if messages > claims[OF_CONSUMER].most:
        claims[OF_CONSUMER].most = messages
        state.limits.common[0].most_by = consumer
    far = messages >= FAR * state.common[0].unacked_max * limits[consumer].largest
    weigh(state, out, OF_CONSUMER, sent, far)


@compiled
def note_at_limit(state: SeenByLimits, consumer: int) -> None:
    """Notes when a consumer comes below its limit; called after every change of what it holds."""
    if state.consumers[consumer].unacked < state.common[0].unacked_max:
        state.limits.consumers[consumer].passing = 0
