"""The limit of unacknowledged messages of a subscription: reads at it (contract 4.2, 4.14)."""

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report
from dispatch_audit.pipeline.replay.rules.limits_contradicted import FAR, count_pass, weigh
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, position_of
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByLimits
from dispatch_audit.pipeline.replay.state.values import CLAIM_STANDS


@compiled
def _passes(state: Seen, slot: int, sent: Dispatch) -> bool:
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
    if _passes(state, slot, sent):
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
    beyond = _passes(state, slot, sent)
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
    unread = position_of(seen[0].unread)
    if seen[0].unread.ledger != UNKNOWN and position_of(sent) >= unread:
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
