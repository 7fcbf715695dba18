"""Whether the broker respects the claimed limits of unacknowledged messages (contract 4.2, 4.8, 4.14).

A dispatch beyond a limit is a finding only while the broker respects the limit elsewhere. Where consumers pass it again
and again, or far, and the broker holds them back less often than it lets them pass, the limit is not the broker's: what
the trace claims is contradicted, and nothing is judged by it any more.
"""

from typing import Final

from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, OF_CONSUMER, OF_SUBSCRIPTION, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByLimits
from dispatch_audit.pipeline.replay.state.state import BY_FLOWS, CLAIM_CONTRADICTED, CLAIM_STANDS

PASSES_MIN: Final = 3
"""So many times a broker goes past a limit that it does not have; a single time may be its mistake."""
FAR: Final = 2
"""Or once so many times as far as the limit and batches allow."""
IN_FLIGHT_US: Final = 100_000
"""A read that granted entries to a consumer below its limit is over by then: it takes up to 40 ms (contract 6.6)."""
HELD_BACK_US: Final = 5_000
"""An entry that could be sent and waited for so long, until the consumer came down from the limit, was held back by it.

Where flow rows show permits, the consumer must have had some by then: one that asks for more only when it acknowledges
waited for its permits. In two recordings with a limit of 50 on real brokers this happened 251 and 275 times and no
consumer passed it; where the limit is claimed too low, consumers passed it 40 to 534 times, and an entry waited like
this 0 to 5 times.
"""
STOOD_US: Final = 1_000_000
"""An entry that could be sent and waited for so long while its consumer was at the limit was held back for certain.

One pass that is framed by two such times, and went no further than one message, shows a broker that has the limit and
broke it once: a limit that a policy had raised meanwhile would have let the consumer have more.
"""


@compiled
def note_dispatch(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    """Notes how a dispatch agrees with both limits; call after the rules and before it takes effect."""
    claims = state.limits.claims
    state.limits.consumers[sent.consumer].largest = largest_batch(state, slot, sent.consumer)
    if state.common[0].unacked_max > 0 and claims[OF_CONSUMER].claim == CLAIM_STANDS:
        _note_of_consumer(state, out, slot, sent)
    if state.limits.common[0].full_since_ts > 0 and claims[OF_SUBSCRIPTION].claim == CLAIM_STANDS:
        _note_of_subscription(state, out, slot, sent)


@compiled
def largest_batch(state: Seen, slot: int, consumer: int) -> int:
    """The most messages in an entry that a consumer is sent, this one included."""
    return int(max(state.limits.consumers[consumer].largest, state.entries[slot].messages))


@compiled
def certainly_unacked(state: Seen, consumer: int) -> int:
    """The messages that a consumer certainly has not acknowledged; the broker may have dropped skipped ones (E6)."""
    return int(state.consumers[consumer].unacked - state.consumers[consumer].maybe_skipped)


@compiled
def passes_limit_of_consumer(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether a dispatch goes beyond what the limit of its consumer allows; a read may exceed it with batches (4.8)."""
    common = state.common
    if common[0].unacked_max <= 0 or state.limits.claims[OF_CONSUMER].claim != CLAIM_STANDS:
        return False
    # The broker grants as many entries as messages are free, and each may be as large as the largest batch. To one that
    # is at its limit it grants none.
    full_ts = state.limits.consumers[sent.consumer].full_ts
    granted = full_ts == 0 or sent.ts_us - full_ts <= IN_FLIGHT_US
    allowed = common[0].unacked_max * (largest_batch(state, slot, sent.consumer) if granted else 1)
    return bool(state.entries[slot].holder < 0 and certainly_unacked(state, sent.consumer) >= allowed)


@compiled
def passes_limit_of_subscription(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether a dispatch shows more reads at the limit than the one that may be in flight (4.2 step 8, 4.14)."""
    common, seen, claimed = state.common, state.limits.common, state.limits.claims[OF_SUBSCRIPTION].claim
    if seen[0].full_since_ts <= 0 or claimed != CLAIM_STANDS or common[0].read_batch_max <= 0:
        return False
    # What was published after a dispatch of that read is of another one.
    another = seen[0].read_full_ts > 0 and _published_after(state, slot, seen[0].read_full_ts)
    return bool(
        _was_unread(state, slot, sent)
        and (another or seen[0].read_when_full >= common[0].read_batch_max)
        and _certain(state) >= common[0].subscription_max // 2
    )


@compiled
def _note_of_consumer(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    limits, claims, consumer = state.limits.consumers, state.limits.claims, sent.consumer
    beyond = passes_limit_of_consumer(state, slot, sent)
    if state.entries[slot].holder >= 0:
        return
    if not beyond:
        if limits[consumer].full_ts > 0 and sent.ts_us - limits[consumer].full_ts > IN_FLIGHT_US:
            # It has been at the limit for longer than any read that may have batches for it: what was taken for holding
            # back was something else.
            claims[OF_CONSUMER].held_back = 0
            claims[OF_CONSUMER].kept_from_seq = 0
        _note_held_back(state, slot, sent)
        return
    messages = certainly_unacked(state, consumer) + state.entries[slot].messages
    stood = limits[consumer].passing == 0 and _stood(state, slot, sent, sent.ts_us)
    limits[consumer].stood = 1 if stood and limits[consumer].largest == 1 else 0
    if limits[consumer].passing == 0:
        limits[consumer].passing = 1
        _count_pass(state, OF_CONSUMER, sent)
    if messages > claims[OF_CONSUMER].most:
        claims[OF_CONSUMER].most = messages
        state.limits.common[0].most_by = consumer
    far = messages >= FAR * state.common[0].unacked_max * limits[consumer].largest
    _weigh(state, out, OF_CONSUMER, sent, far, state.limits.common[0].stood)


@compiled
def _note_of_subscription(state: SeenByLimits, out: Output, slot: int, sent: Dispatch) -> None:
    common, seen, claims = state.common, state.limits.common, state.limits.claims
    if common[0].read_batch_max <= 0 or not _was_unread(state, slot, sent):
        return
    beyond = passes_limit_of_subscription(state, slot, sent)
    if seen[0].read_when_full == 0:
        seen[0].read_full_ts = sent.ts_us
    seen[0].read_when_full += 1
    if not beyond:
        return
    if seen[0].passing == 0:
        seen[0].passing = 1
        _count_pass(state, OF_SUBSCRIPTION, sent)
        _note_passed_at(state, common[0].unacked)
    messages = common[0].unacked + state.entries[slot].messages
    claims[OF_SUBSCRIPTION].most = max(claims[OF_SUBSCRIPTION].most, messages)
    _weigh(state, out, OF_SUBSCRIPTION, sent, common[0].unacked >= FAR * common[0].subscription_max, 0)


@compiled
def _count_pass(state: SeenByLimits, limited: int, sent: Dispatch) -> None:
    """Counts a dispatch with which more is sent than a limit and batches allow."""
    claims = state.limits.claims
    claims[limited].passes += 1
    if claims[limited].passes == 1:
        claims[limited].passed_seq = sent.seq


@compiled
def _weigh(state: SeenByLimits, out: Output, limited: int, sent: Dispatch, far: bool, stood: int) -> None:
    """Notes whether a dispatch completes the evidence against a claimed limit, and stops the kernel if it does.

    One that goes `far` beyond the limit is enough. An entry was certainly held back at the limit `stood` times.
    """
    claims = state.limits.claims
    passes = claims[limited].passes
    if (passes >= PASSES_MIN or far) and passes > claims[limited].held_back + stood:
        claims[limited].claim = CLAIM_CONTRADICTED
        claims[limited].contradicted_seq = sent.seq
        claims[limited].contradicted_ts = sent.ts_us
        if out.stop[0] == 0:
            out.stop[0] = CONTRADICTED


@compiled
def _note_passed_at(state: SeenByLimits, unacked: int) -> None:
    """Notes at how many messages the subscription was read for; being held back at as many shows a higher limit."""
    seen = state.limits.common
    seen[0].passed_at = min(seen[0].passed_at, unacked) if seen[0].passed_at > 0 else unacked
    if seen[0].held_at >= seen[0].passed_at:
        state.limits.claims[OF_SUBSCRIPTION].held_back = 0
        seen[0].held_at = 0


@compiled
def _note_held_back(state: SeenByLimits, slot: int, sent: Dispatch) -> None:
    """Counts an entry that waited while its consumer was at the limit, and is the first that it gets below."""
    limits, entries = state.limits.consumers, state.entries
    freed_ts = limits[sent.consumer].freed_ts
    if freed_ts == 0:
        return
    limits[sent.consumer].freed_ts = 0
    if entries[slot].marks & Mark.WAITING == 0:
        return
    if limits[sent.consumer].stood == 1:
        # It was beyond the limit since its last dispatch.
        limits[sent.consumer].stood = 0
        if _stood(state, slot, sent, freed_ts):
            state.limits.common[0].stood += 1
            _note_kept(state, state.limits.claims[OF_CONSUMER].passed_seq - 1, sent.seq)
        return
    since = max(limits[sent.consumer].freed_from_ts, entries[slot].since_ts, state.waits.hashes[sent.hash_at].clear_ts)
    if freed_ts - since >= HELD_BACK_US:
        state.limits.claims[OF_CONSUMER].held_back += 1
        _note_kept(state, sent.seq, sent.seq)


@compiled
def _note_kept(state: SeenByLimits, since_seq: int, seq: int) -> None:
    """Notes that consumers certainly had their limit between two rows."""
    claims = state.limits.claims
    claims[OF_CONSUMER].kept_to_seq = seq
    if claims[OF_CONSUMER].kept_from_seq == 0:
        claims[OF_CONSUMER].kept_from_seq = since_seq


@compiled
def _stood(state: Seen, slot: int, sent: Dispatch, until_ts: int) -> bool:
    """Whether an entry could have been sent for long before a time, and its consumer was at the limit and got none.

    Permits that were asked for at the limit do not count before the consumer comes down from it, so those that it has
    were there all the time.
    """
    entries, consumers, consumer = state.entries, state.consumers, sent.consumer
    limits = state.limits.consumers
    had_permits = state.common[0].permits_known_by == BY_FLOWS and consumers[consumer].permits > 0
    if not had_permits or entries[slot].marks & (Mark.WAITING | Mark.READ) != Mark.WAITING | Mark.READ:
        return False
    since = max(limits[consumer].full_ts, limits[consumer].freed_from_ts, consumers[consumer].sent_ts)
    since = max(since, entries[slot].since_ts, state.waits.hashes[sent.hash_at].clear_ts)
    return bool(until_ts - since >= STOOD_US)


@compiled
def _was_unread(state: Seen, slot: int, sent: Dispatch) -> bool:
    """Whether the broker certainly had not read an entry when the subscription reached its limit."""
    seen = state.limits.common
    if state.entries[slot].marks & (Mark.SENT | Mark.RETURNED) != 0:
        return False
    unread = (seen[0].unread_ledger, seen[0].unread_entry)
    if seen[0].unread_ledger != UNKNOWN and (sent.ledger, sent.entry) >= unread:
        return True
    return _published_after(state, slot, seen[0].full_since_ts)


@compiled
def _published_after(state: Seen, slot: int, ts: int) -> bool:
    """Whether an entry that was never sent was certainly published after a time."""
    published = state.entries[slot].marks & (Mark.WAITING | Mark.UNPUBLISHED) == Mark.WAITING
    return bool(published and state.entries[slot].since_ts > ts + state.common[0].publish_skew_us)


@compiled
def _certain(state: Seen) -> int:
    """The unacknowledged messages of the subscription without those that leavers and skips may have taken from it."""
    certain = int(state.common[0].unacked)
    for consumer in range(state.consumers.size):
        doubtful = state.consumers[consumer].maybe_skipped
        if state.consumers[consumer].leaving != 0:
            doubtful = state.consumers[consumer].unacked
        certain -= int(doubtful)
    return certain


@compiled
def note_full(state: SeenByLimits, ts: int) -> None:
    """Notes since when the subscription is certainly at its limit, and how it came below it; called with every row.

    Once it may have come down to half of the limit, only as many certain messages as the limit stop it again.
    """
    common, seen = state.common, state.limits.common
    full = common[0].full == 1
    if full:
        limit = common[0].subscription_max
        full = _certain(state) >= (limit // 2 if seen[0].full_since_ts > 0 else limit)
    if full and seen[0].full_since_ts == 0:
        seen[0].full_since_ts = ts
        seen[0].most_full = 0
        seen[0].read_when_full = 0
        seen[0].read_full_ts = 0
        seen[0].passing = 0
        seen[0].unread_ledger = UNKNOWN
    elif not full and seen[0].full_since_ts > 0:
        claims, since_ts = state.limits.claims, ts - HELD_BACK_US
        at_limit = seen[0].passed_at == 0 or seen[0].most_full < seen[0].passed_at
        was_full = seen[0].full_since_ts <= since_ts and seen[0].passing == 0
        if was_full and at_limit and _is_any_unread(state, since_ts):
            claims[OF_SUBSCRIPTION].held_back += 1
            seen[0].held_at = max(seen[0].held_at, seen[0].most_full)
            claims[OF_SUBSCRIPTION].kept_to_seq = common[0].last_dispatch_seq
            if claims[OF_SUBSCRIPTION].held_back == 1:
                claims[OF_SUBSCRIPTION].kept_from_seq = common[0].last_dispatch_seq
        seen[0].full_since_ts = 0
    if full:
        seen[0].most_full = max(seen[0].most_full, common[0].unacked)


@compiled
def _is_any_unread(state: Seen, since_ts: int) -> bool:
    """Whether any entry has waited since a time that was not read, although its owner could be sent it."""
    hashes, entries, waits = state.hashes, state.entries, state.waits.consumers
    for at in range(hashes.size):
        head, owner = hashes[at].queue_first, hashes[at].owner
        if hashes[at].hash < 0 or head < 0 or owner < 0 or hashes[at].away == 1:
            continue
        ready = waits[owner].cause == Cause.READY and waits[owner].cause_ts <= since_ts
        if ready and entries[head].marks & Mark.READ == 0 and entries[head].since_ts <= since_ts:
            return True
    return False


@compiled
def note_at_limit(state: SeenByLimits, consumer: int, ts: int) -> None:
    """Notes when a consumer reaches its limit, and when it comes down; called after every change of what it holds."""
    limits, limit = state.limits.consumers, state.common[0].unacked_max
    if limit <= 0:
        return
    if state.consumers[consumer].unacked >= limit:
        if limits[consumer].full_ts == 0:
            limits[consumer].full_ts = ts
            limits[consumer].freed_from_ts = 0
        if not _may_have_permits(state, consumer):
            limits[consumer].freed_from_ts = 0
        elif limits[consumer].freed_from_ts == 0:
            limits[consumer].freed_from_ts = ts
    elif limits[consumer].full_ts > 0:
        if limits[consumer].passing == 0 or limits[consumer].stood == 1:
            limits[consumer].freed_ts = ts if limits[consumer].freed_from_ts > 0 else 0
        limits[consumer].full_ts = 0
        limits[consumer].passing = 0


@compiled
def _may_have_permits(state: Seen, consumer: int) -> bool:
    """Whether a consumer has permits, those included that do not count before it is unblocked (4.14)."""
    asked = state.consumers[consumer].permits + state.consumers[consumer].withheld
    return bool(state.common[0].permits_known_by != BY_FLOWS or asked > 0)
