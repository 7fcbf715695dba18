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
def _weigh(
    state: SeenByLimits, out: Output, limited: int, sent: Dispatch, messages: int, again: bool, far: bool
) -> None:
    """Counts a dispatch beyond a limit, and stops the kernel if that completes the evidence against the limit.

    `messages` are unacknowledged with it. It passes the limit once more if it does so `again`, and a single one that is
    `far` beyond the limit is enough.
    """
    claims = state.limits.claims
    if again:
        claims[limited].passes += 1
        if claims[limited].passes == 1:
            claims[limited].passed_seq = sent.seq
    claims[limited].most = max(claims[limited].most, messages)
    if claims[limited].passes >= PASSES_MIN or far:
        claims[limited].claim = CLAIM_CONTRADICTED
        set_point(claims[limited].contradicted, sent)
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED


@compiled
def judge_limit_of_consumer(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Reports a dispatch beyond the limit of its consumer, unless the claim is contradicted; call before it is noted.

    A read grants as many entries as the consumer has room for messages (4.8, 6.1), and each may be a batch. The
    broker may have dropped what was skipped (E6).
    """
    limits, limit, consumer = state.limits.consumers, state.common[0].unacked_max, sent.consumer
    limits[consumer].largest = max(limits[consumer].largest, state.entries[slot].messages)
    stands = limit > 0 and state.limits.claims[OF_CONSUMER].claim == CLAIM_STANDS
    if not stands or state.entries[slot].holder >= 0:
        return
    unacked = state.consumers[consumer].unacked - state.consumers[consumer].maybe_skipped
    room, before = limit - unacked, limits[consumer].granted
    if sent.ts_us - limits[consumer].granted_ts > READ_AND_PAUSE_US or room >= before:
        limits[consumer].granted_ts = sent.ts_us
        limits[consumer].granted = room
    limits[consumer].granted -= 1
    if limits[consumer].granted >= 0:
        return
    messages = unacked + state.entries[slot].messages
    row = report(state, out, UNACKED_LIMIT, slot, sent)
    out.findings[row].value = messages
    out.findings[row].expected = limit
    out.findings[row].said = state.common[0].consumer_said
    # Each later read is another pass, unless a row states the limit: then the broker breaks it once for a while.
    later = sent.ts_us - limits[consumer].passed_ts > READ_AND_PAUSE_US
    again = before >= 0 or (state.common[0].consumer_said == 0 and later)
    if again:
        limits[consumer].passed_ts = sent.ts_us
    _weigh(state, out, OF_CONSUMER, sent, messages, again, messages >= FAR * limit * limits[consumer].largest)


@compiled
def judge_limit_of_subscription(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Reports a dispatch of another read at the limit than the one that may be in flight (4.2 step 8, 4.14)."""
    common, full, limit = state.common, state.limits.common, state.common[0].subscription_max
    stands = full[0].full_since_ts > 0 and state.limits.claims[OF_SUBSCRIPTION].claim == CLAIM_STANDS
    if not stands or common[0].read_batch_max <= 0 or not _was_unread(state, slot, sent):
        return
    # An entry that was published after a dispatch of that read belongs to another read.
    another = full[0].read_full_ts > 0 and _published_after(state, slot, full[0].read_full_ts)
    beyond = another or full[0].read_when_full >= common[0].read_batch_max
    if full[0].read_when_full == 0:
        full[0].read_full_ts = sent.ts_us
    full[0].read_when_full += 1
    if not beyond or _certain(state) < limit // 2:
        return
    messages = common[0].unacked + state.entries[slot].messages
    row = report(state, out, UNACKED_LIMIT, slot, sent)
    out.findings[row].value = messages
    out.findings[row].expected = limit
    out.findings[row].limited = OF_SUBSCRIPTION
    out.findings[row].said = common[0].subscription_said
    out.findings[row].read_when_full = full[0].read_when_full
    out.findings[row].vague = common[0].total_vague
    _weigh(state, out, OF_SUBSCRIPTION, sent, messages, full[0].passing == 0, common[0].unacked >= FAR * limit)
    full[0].passing = 1


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
    unsent = Mark.WAITING | Mark.UNPUBLISHED | Mark.SENT | Mark.RETURNED
    published = state.entries[slot].marks & unsent == Mark.WAITING
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

    After it may have come down to half of the limit, only as many certain messages as the limit stop it again. The
    broker looks at the limit when the number changes, so a limit that is lowered stops nothing by itself (4.14).
    """
    seen, limit, unacked = state.limits.common, state.common[0].subscription_max, state.common[0].unacked
    was_full, changed = seen[0].full_since_ts > 0, unacked != seen[0].unacked
    seen[0].unacked = unacked
    least = limit // 2 if was_full else limit
    full = limit > 0 and unacked >= least and (was_full or changed) and _certain(state) >= least
    if full != was_full:
        seen[0].full_since_ts = ts if full else 0
        seen[0].read_when_full = 0
        seen[0].read_full_ts = 0
        seen[0].passing = 0
        seen[0].unread.ledger = UNKNOWN
