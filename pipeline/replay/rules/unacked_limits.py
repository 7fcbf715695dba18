"""The limits of unacknowledged messages, of a consumer and of the subscription (contract 4.2, 4.8, 4.14).

A dispatch beyond a limit is a finding only while the broker respects the limit elsewhere. Where consumers pass it again
and again, or far, and the broker holds them back less often than it lets them pass, the limit is not the broker's: what
the trace claims is contradicted, and nothing is judged by it any more.
"""

from typing import Final

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import CONTRADICTED, OF_SUBSCRIPTION, Output
from dispatch_audit.pipeline.replay.state.state import (
    BY_FLOWS,
    CLAIM_CONTRADICTED,
    CLAIM_STANDS,
    LIMITED_DISPATCHES,
    READ,
    RETURNED,
    SENT,
    UNKNOWN,
    UNPUBLISHED,
    WAITING,
    Records,
    State,
)

PASSES_MIN: Final = 3
"""So many times a broker goes past a limit that it does not have; a single time may be its mistake."""
FAR: Final = 2
"""Or once so many times as far as the limit and batches allow."""
IN_FLIGHT_US: Final = 100_000
"""A read that granted entries to a consumer below its limit is over by then: it takes up to 40 ms (contract 6.6)."""
HELD_BACK_US: Final = 5_000
"""An entry that could be sent and waited for so long, until the consumer came down from the limit, was held back by it.

In two recordings with a limit of 50 on real brokers this happened 251 and 275 times and no consumer passed it; where
the limit is claimed too low, consumers passed it 40 to 534 times, and an entry waited like this 0 to 5 times.
"""
STOOD_US: Final = 1_000_000
"""An entry that could be sent and waited for so long while its consumer was at the limit was held back for certain.

One pass that is framed by two such times, and went no further than one message, shows a broker that has the limit and
broke it once: a limit that a policy had raised meanwhile would have let the consumer have more.
"""


@compiled
def check_unacked(state: State, out: Output, slot: int, sent: Dispatch) -> None:
    """Checks both limits; call before the dispatch takes effect."""
    common = state.common
    if common[0].unacked_max > 0 or common[0].subscription_max > 0:
        state.checked[LIMITED_DISPATCHES] += 1
    if common[0].unacked_max > 0 and common[0].consumer_claim == CLAIM_STANDS:
        _check_consumer(state, out, slot, sent)
    if common[0].full_since_ts > 0 and common[0].subscription_claim == CLAIM_STANDS:
        _check_subscription(state, out, slot, sent)


@compiled
def _check_consumer(state: State, out: Output, slot: int, sent: Dispatch) -> None:
    """A read may exceed the limit with batches larger than expected (4.8)."""
    consumers, common = state.consumers, state.common
    messages = state.entries[slot].messages
    # The broker grants as many entries as messages are free, and each may be as large as the largest batch.
    consumers[sent.consumer].largest = max(consumers[sent.consumer].largest, messages)
    allowed = common[0].unacked_max * consumers[sent.consumer].largest
    # What an administrator may have skipped does not count: the broker may have dropped it (E6).
    held = consumers[sent.consumer].unacked - consumers[sent.consumer].maybe_skipped
    if state.entries[slot].holder >= 0:
        return
    if held < allowed:
        full_ts = consumers[sent.consumer].full_ts
        if full_ts > 0 and sent.ts_us - full_ts > IN_FLIGHT_US:
            # It has been at the limit for longer than any read that may have batches for it: what was taken for holding
            # back was something else.
            common[0].consumer_held_back = 0
            common[0].consumer_kept_from_seq = 0
        _note_held_back(state, slot, sent)
        return
    row = report(state, out, UNACKED_LIMIT, slot, sent)
    out.findings[row].value = held + messages
    out.findings[row].expected = common[0].unacked_max
    out.findings[row].largest = consumers[sent.consumer].largest
    stood = consumers[sent.consumer].passing == 0 and _stood(state, slot, sent, sent.ts_us)
    consumers[sent.consumer].stood = 1 if stood and messages == 1 and consumers[sent.consumer].largest == 1 else 0
    if consumers[sent.consumer].passing == 0:
        consumers[sent.consumer].passing = 1
        common[0].consumer_passes += 1
        if common[0].consumer_passes == 1:
            common[0].passed_seq = sent.seq
    if held + messages > common[0].most_held:
        common[0].most_held = held + messages
        common[0].most_held_by = sent.consumer
    often = common[0].consumer_passes >= PASSES_MIN or held + messages >= FAR * allowed
    if often and common[0].consumer_passes > common[0].consumer_held_back + common[0].consumer_stood:
        common[0].consumer_claim = CLAIM_CONTRADICTED
        _contradict(common, sent)


@compiled
def _note_held_back(state: State, slot: int, sent: Dispatch) -> None:
    """Counts an entry that waited while its consumer was at the limit, and is the first that it gets below."""
    consumers, entries = state.consumers, state.entries
    freed_ts = consumers[sent.consumer].freed_ts
    if freed_ts == 0:
        return
    consumers[sent.consumer].freed_ts = 0
    if entries[slot].marks & WAITING == 0:
        return
    if consumers[sent.consumer].stood == 1:
        # It was beyond the limit since its last dispatch.
        consumers[sent.consumer].stood = 0
        if _stood(state, slot, sent, freed_ts):
            state.common[0].consumer_stood += 1
            _note_kept(state.common, state.common[0].passed_seq - 1, sent.seq)
        return
    since = max(consumers[sent.consumer].freed_from_ts, entries[slot].since_ts, state.hashes[sent.hash_at].clear_ts)
    if freed_ts - since >= HELD_BACK_US:
        state.common[0].consumer_held_back += 1
        _note_kept(state.common, sent.seq, sent.seq)


@compiled
def _note_kept(common: Records, since_seq: int, seq: int) -> None:
    """Notes that consumers certainly had their limit between two rows."""
    common[0].consumer_kept_to_seq = seq
    if common[0].consumer_kept_from_seq == 0:
        common[0].consumer_kept_from_seq = since_seq


@compiled
def _stood(state: State, slot: int, sent: Dispatch, until_ts: int) -> bool:
    """Whether an entry could have been sent for long before a time, and its consumer was at the limit and got none.

    Permits that were asked for at the limit do not count before the consumer comes down from it, so those that it has
    were there all the time.
    """
    entries, consumers, consumer = state.entries, state.consumers, sent.consumer
    had_permits = state.common[0].permits_known_by == BY_FLOWS and consumers[consumer].permits > 0
    if not had_permits or entries[slot].marks & (WAITING | READ) != WAITING | READ:
        return False
    since = max(consumers[consumer].full_ts, consumers[consumer].freed_from_ts, consumers[consumer].sent_ts)
    since = max(since, entries[slot].since_ts, state.hashes[sent.hash_at].clear_ts)
    return bool(until_ts - since >= STOOD_US)


@compiled
def _check_subscription(state: State, out: Output, slot: int, sent: Dispatch) -> None:
    """A subscription at its limit reads nothing new, but what is in flight: one read (4.2 step 8, 4.14)."""
    common, entries = state.common, state.entries
    if common[0].read_batch_max <= 0 or not _was_unread(state, slot, sent):
        return
    common[0].read_when_full += 1
    if common[0].read_when_full <= common[0].read_batch_max or _certain(state) < common[0].subscription_max // 2:
        return
    row = report(state, out, UNACKED_LIMIT, slot, sent)
    out.findings[row].value = common[0].unacked + entries[slot].messages
    out.findings[row].expected = common[0].subscription_max
    out.findings[row].limited = OF_SUBSCRIPTION
    out.findings[row].largest = common[0].read_when_full
    out.findings[row].vague = common[0].total_vague
    if common[0].subscription_passing == 0:
        common[0].subscription_passing = 1
        common[0].subscription_passes += 1
        if common[0].subscription_passes == 1:
            common[0].subscription_passed_seq = sent.seq
    common[0].most_unacked = max(common[0].most_unacked, common[0].unacked + entries[slot].messages)
    often = common[0].subscription_passes >= PASSES_MIN or common[0].unacked >= FAR * common[0].subscription_max
    if often and common[0].subscription_passes > common[0].subscription_held_back:
        common[0].subscription_claim = CLAIM_CONTRADICTED
        _contradict(common, sent)


@compiled
def _was_unread(state: State, slot: int, sent: Dispatch) -> bool:
    """Whether the broker certainly had not read an entry when the subscription reached its limit."""
    common, entries = state.common, state.entries
    if entries[slot].marks & (SENT | RETURNED) != 0:
        return False
    unread = (common[0].unread_ledger, common[0].unread_entry)
    if common[0].unread_ledger != UNKNOWN and (sent.ledger, sent.entry) >= unread:
        return True
    published = entries[slot].marks & (WAITING | UNPUBLISHED) == WAITING
    return bool(published and entries[slot].since_ts > common[0].full_since_ts + common[0].publish_skew_us)


@compiled
def _certain(state: State) -> int:
    """The unacknowledged messages of the subscription without those that leavers and skips may have taken from it."""
    certain = int(state.common[0].unacked)
    for consumer in range(state.consumers.size):
        doubtful = state.consumers[consumer].maybe_skipped
        if state.consumers[consumer].leaving != 0:
            doubtful = state.consumers[consumer].unacked
        certain -= int(doubtful)
    return certain


@compiled
def note_full(state: State, ts: int) -> None:
    """Notes since when the subscription is at its limit for certain, and how it came down; called with every row.

    Once it may have come down to half of the limit, only as many certain messages as the limit stop it again.
    """
    common = state.common
    full = common[0].full == 1
    if full:
        limit = common[0].subscription_max
        full = _certain(state) >= (limit // 2 if common[0].full_since_ts > 0 else limit)
    if full and common[0].full_since_ts == 0:
        common[0].full_since_ts = ts
        common[0].read_when_full = 0
        common[0].subscription_passing = 0
        common[0].unread_ledger = UNKNOWN
    elif not full and common[0].full_since_ts > 0:
        held_back = common[0].connected > 0 and common[0].waiting > 0 and ts - common[0].full_since_ts >= HELD_BACK_US
        if held_back and common[0].subscription_passing == 0:
            common[0].subscription_held_back += 1
            common[0].subscription_kept_to_seq = common[0].last_dispatch_seq
            if common[0].subscription_held_back == 1:
                common[0].subscription_kept_from_seq = common[0].last_dispatch_seq
        common[0].full_since_ts = 0


@compiled
def note_at_limit(state: State, consumer: int, ts: int) -> None:
    """Notes when a consumer reaches its limit, and when it comes down; called after every change of what it holds."""
    consumers, limit = state.consumers, state.common[0].unacked_max
    if limit <= 0:
        return
    if consumers[consumer].unacked >= limit:
        if consumers[consumer].full_ts == 0:
            consumers[consumer].full_ts = ts
    elif consumers[consumer].full_ts > 0:
        if consumers[consumer].passing == 0 or consumers[consumer].stood == 1:
            consumers[consumer].freed_from_ts = consumers[consumer].full_ts
            consumers[consumer].freed_ts = ts
        consumers[consumer].full_ts = 0
        consumers[consumer].passing = 0


@compiled
def _contradict(common: Records, sent: Dispatch) -> None:
    """Notes the dispatch that completes the evidence against a claimed limit, and stops the kernel."""
    common[0].contradicted_seq = sent.seq
    common[0].contradicted_ts = sent.ts_us
    if common[0].stop_reason == 0:
        common[0].stop_reason = CONTRADICTED
