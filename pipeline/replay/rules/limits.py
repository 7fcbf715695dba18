"""The limits of unacknowledged messages: dispatches beyond them, and whether the broker has them at all.

A consumer at `maxUnackedMessagesPerConsumer` is sent nothing more (contract 4.8); a subscription at its limit reads
nothing new (4.2, 4.14). If consumers pass a limit often, or far, the broker does not have it: the claim of the trace is
contradicted, and no later dispatch is judged by it.
"""

from typing import Final

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, OF_CONSUMER, OF_SUBSCRIPTION, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, position_of, set_point
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByLimits
from dispatch_audit.pipeline.replay.state.values import CLAIM_CONTRADICTED, CLAIM_STANDS, Mark

PASSES_MIN: Final = 3
"""The passes that contradict a limit; a single one may be a mistake of the broker."""
FAR: Final = 2
"""The multiple of what the limit and batches allow at which a single pass contradicts the limit."""


@compiled
def count_pass(state: SeenByLimits, limited: int, sent: Dispatch) -> None:
    """Counts a dispatch that exceeds what a limit and batches allow."""
    claims = state.limits.claims
    claims[limited].passes += 1
    if claims[limited].passes == 1:
        claims[limited].passed_seq = sent.seq


@compiled
def weigh(state: SeenByLimits, out: Output, limited: int, sent: Dispatch, far: bool) -> None:
    """Contradicts a claimed limit, and stops the kernel, if a dispatch completes the evidence against the limit.

    A single dispatch `far` beyond the limit is enough.
    """
    claims = state.limits.claims
    if claims[limited].passes >= PASSES_MIN or far:
        claims[limited].claim = CLAIM_CONTRADICTED
        set_point(claims[limited].contradicted, sent)
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED


@compiled
def _certainly_unacked(state: Seen, consumer: int) -> int:
    """The certainly unacknowledged messages of a consumer; the broker may have dropped skipped ones (E6)."""
    return int(state.consumers[consumer].unacked - state.consumers[consumer].maybe_skipped)


@compiled
def _granted(state: Seen, sent: Dispatch) -> tuple[bool, int]:
    """The entries that reads in flight may still send to a consumer, and whether this read grants as many anew.

    A read grants as many entries as the consumer has room for messages (4.8, 6.1), and each may be a batch.
    """
    room = state.common[0].unacked_max - _certainly_unacked(state, sent.consumer)
    before = state.limits.consumers[sent.consumer]
    anew = sent.ts_us - before.granted_ts > READ_AND_PAUSE_US or room >= before.granted
    return anew, int(room if anew else before.granted)


@compiled
def _passes(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether a dispatch goes beyond what the limit of its consumer allows."""
    if state.common[0].unacked_max <= 0 or state.limits.claims[OF_CONSUMER].claim != CLAIM_STANDS:
        return False
    return bool(state.entries[slot].holder < 0 and _granted(state, sent)[1] <= 0)


@compiled
def check_limit_of_consumer(state: Seen, out: Output, slot: int, sent: Dispatch) -> None:
    """Checks the limit, unless its claim is contradicted."""
    if _passes(state, slot, sent):
        row = report(state, out, UNACKED_LIMIT, slot, sent)
        out.findings[row].value = _certainly_unacked(state, sent.consumer) + state.entries[slot].messages
        out.findings[row].expected = state.common[0].unacked_max
        out.findings[row].said = state.common[0].consumer_said


@compiled
def note_limit_of_consumer(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Notes whether a dispatch respects the limit; call after the rules and before it takes effect."""
    limits, claims, consumer = state.limits.consumers, state.limits.claims, sent.consumer
    limits[consumer].largest = max(limits[consumer].largest, state.entries[slot].messages)
    stands = state.common[0].unacked_max > 0 and claims[OF_CONSUMER].claim == CLAIM_STANDS
    if not stands or state.entries[slot].holder >= 0:
        return
    anew, granted = _granted(state, sent)
    if anew:
        limits[consumer].granted_ts = sent.ts_us
    limits[consumer].granted = granted - 1
    if granted > 0:
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


@compiled
def _reads_at_limit(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether a dispatch shows another read at the limit than the one that may be in flight (4.2 step 8, 4.14)."""
    common, seen, claimed = state.common, state.limits.common, state.limits.claims[OF_SUBSCRIPTION].claim
    if seen[0].full_since_ts <= 0 or claimed != CLAIM_STANDS or common[0].read_batch_max <= 0:
        return False
    # An entry that was published after a dispatch of that read belongs to another read.
    another = seen[0].read_full_ts > 0 and _published_after(state, slot, seen[0].read_full_ts)
    return bool(
        _was_unread(state, slot, sent)
        and (another or seen[0].read_when_full >= common[0].read_batch_max)
        and _certain(state) >= common[0].subscription_max // 2
    )


@compiled
def check_limit_of_subscription(state: Seen, out: Output, slot: int, sent: Dispatch) -> None:
    """Checks the limit, unless its claim is contradicted."""
    if _reads_at_limit(state, slot, sent):
        row = report(state, out, UNACKED_LIMIT, slot, sent)
        out.findings[row].value = state.common[0].unacked + state.entries[slot].messages
        out.findings[row].expected = state.common[0].subscription_max
        out.findings[row].limited = OF_SUBSCRIPTION
        out.findings[row].said = state.common[0].subscription_said
        out.findings[row].read_when_full = state.limits.common[0].read_when_full + 1
        out.findings[row].vague = state.common[0].total_vague


@compiled
def note_limit_of_subscription(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Notes whether a dispatch respects the limit; call after the rules and before it takes effect."""
    common, seen, claims = state.common, state.limits.common, state.limits.claims
    if seen[0].full_since_ts <= 0 or claims[OF_SUBSCRIPTION].claim != CLAIM_STANDS:
        return
    if common[0].read_batch_max <= 0 or not _was_unread(state, slot, sent):
        return
    beyond = _reads_at_limit(state, slot, sent)
    if seen[0].read_when_full == 0:
        seen[0].read_full_ts = sent.ts_us
    seen[0].read_when_full += 1
    if not beyond:
        return
    if seen[0].passing == 0:
        seen[0].passing = 1
        count_pass(state, OF_SUBSCRIPTION, sent)
    messages = common[0].unacked + state.entries[slot].messages
    claims[OF_SUBSCRIPTION].most = max(claims[OF_SUBSCRIPTION].most, messages)
    weigh(state, out, OF_SUBSCRIPTION, sent, common[0].unacked >= FAR * common[0].subscription_max)


@compiled
def _was_unread(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether the broker certainly had not read an entry when the subscription reached its limit."""
    seen = state.limits.common
    if state.entries[slot].marks & (Mark.SENT | Mark.RETURNED) != 0:
        return False
    if seen[0].unread.ledger != UNKNOWN and position_of(sent) >= position_of(seen[0].unread):
        return True
    return _published_after(state, slot, seen[0].full_since_ts)


@compiled
def _published_after(state: Seen, slot: int, ts: int) -> bool:
    """Whether an entry that was never sent was certainly published after a time."""
    published = state.entries[slot].marks & (Mark.WAITING | Mark.UNPUBLISHED) == Mark.WAITING
    return bool(published and state.entries[slot].since.ts_us > ts + state.common[0].publish_skew_us)


@compiled
def _certain(state: Seen) -> int:
    """The certainly unacknowledged messages of the subscription, without those that leavers and skips may remove."""
    certain = int(state.common[0].unacked)
    for consumer in range(state.consumers.size):
        doubtful = state.consumers[consumer].maybe_skipped
        if state.consumers[consumer].leaving != 0:
            doubtful = state.consumers[consumer].unacked
        certain -= int(doubtful)
    return certain


@compiled
def note_full(state: SeenByLimits, ts: int) -> None:
    """Notes when the subscription certainly reaches its limit and when it comes below; called with every row.

    After it may have come down to half of the limit, only as many certain messages as the limit stop it again.
    """
    common, seen = state.common, state.limits.common
    full = common[0].full == 1
    if full:
        limit = common[0].subscription_max
        full = _certain(state) >= (limit // 2 if seen[0].full_since_ts > 0 else limit)
    if full and seen[0].full_since_ts == 0:
        seen[0].full_since_ts = ts
        seen[0].read_when_full = 0
        seen[0].read_full_ts = 0
        seen[0].passing = 0
        seen[0].unread.ledger = UNKNOWN
    elif not full and seen[0].full_since_ts > 0:
        seen[0].full_since_ts = 0
