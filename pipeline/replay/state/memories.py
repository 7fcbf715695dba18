"""What the observers of the dispatcher remember: each writes its own memory, and reads everything else.

A memory has a record for each slot of the dispatcher's hashes or consumers, or one for the subscription. It grows with
them (`dispatcher.allocation`) and begins anew with a slot, so an observer may be left out and nothing else changes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.pair_index import Keys

Remembered: TypeAlias = "np.recarray[Any, Any]"


def _record(names: Sequence[str]) -> "np.dtype[np.void]":
    return np.dtype([(name, np.int64) for name in names])


# Why the entries of one hash wait, and since when it could be served.
HASH_WAIT = _record(
    (
        "clear_seq",  # since when it could be served and was not, if an entry waits
        "clear_ts",
        "clear_unavailable_us",  # the time until then in which its owner could be sent nothing
        "clear_unserved_us",  # and that in which the broker did not read for it
        "clear_look_ahead_us",  # the time until then in which the look-ahead limit was reached
        "clear_full_us",  # the time until then in which the subscription was blocked on unacked messages
        "clear_idle_us",  # what its entries had waited until then (`HASH.idle_us`)
        "read_seq",  # the row that shows that the broker has read the first waiting entry
        "read_ts",  # UNKNOWN: it was read before it was the first one, or was not read
        "read_unserved_us",  # the time until then in which the broker did not read for its owner
        "why",  # the cause of the open interval, see `causes`; READY: none is open
        "why_seq",
        "why_ts",
        "why_to_seq",
        "why_to_ts",
        "why_ended_by",
        "why_us",
        "why_entries",
        "why_came",  # how many had come by its beginning and were gone
        "why_ledger",
        "why_entry",
    )
)

# Why one consumer can be sent nothing.
CONSUMER_WAIT = _record(
    (
        "cause",  # why it can be sent nothing, see `causes`; READY: it can
        "former",  # the value of `cause` before that
        "cause_seq",
        "cause_ts",
        "unavailable_us",  # the time in which it could be sent nothing, without the open interval
        "unserved_us",  # that in which the broker did not read for it, without the open one
        "unserved_since_ts",  # the beginning of the open one; 0: there is none
        "half_full",  # it holds more than half of what may be its limit, so a limit that no row says may block it
        "half_full_ts",  # until when it last did
        "counts_more",  # so many messages more than rows show it has unacknowledged, by snapshots (E6, F10)
        "recent",  # it joined recently and gets no new entries (3.x and classic)
    )
)

# Why the subscription is sent nothing, and when the kernel has to stop for the observer.
WAIT = _record(
    (
        "look_ahead_since_ts",  # since when replay is about at `look_ahead_limit`; UNKNOWN: it is not
        "look_ahead_us",  # the total time of earlier such intervals
        "blocked_on_unacked_since_ts",  # the same for `blocked_on_unacked`
        "blocked_on_unacked_us",
        "blocked_on_unacked_until_ts",  # until when it last was blocked on unacked messages
        "half_full",  # half of what may be the limit is unacknowledged, so it may block the subscription
        "half_full_ts",  # until when it last was
        "stopped_at_seq",  # the row in front of which the kernel has already stopped for a stall
        "looked_ts",  # when it last stopped in front of a row that takes entries from consumers in a stall
        "next_sample_ts",  # when the next capacity sample is due
        "join_release_ledger",  # where mark-delete releases a recently joined consumer; UNKNOWN: nowhere
        "join_release_entry",
    )
)

# How one consumer stands to the claimed limit of unacknowledged messages.
CONSUMER_LIMIT = _record(
    (
        "largest",  # the most messages in an entry that it was sent
        "full_ts",  # since when it holds as many messages as its limit; 0: it does not
        "freed_ts",  # when it came down from its limit, if it was sent nothing since; 0: it did not
        "freed_from_ts",  # since when it was there and had permits; 0: it has had none since
        "passing",  # since it reached its limit it has been sent more than batches explain
        "stood",  # it was held back at its limit for long before the one dispatch that passed it
    )
)

# What speaks for and against the claimed limits of unacknowledged messages.
LIMIT = _record(
    (
        "consumer_claim",  # whether the broker respects the claimed limit of a consumer: CLAIM_STANDS, ...
        "consumer_passes",  # how often a consumer was sent more than the limit and batches allow
        "consumer_held_back",  # how often one at the limit was held back
        "consumer_stood",  # how often one was passed by a message between two times of being held back
        "consumer_kept_from_seq",  # the dispatches after which it first and last kept the limit; 0: none
        "consumer_kept_to_seq",
        "consumer_passed_seq",  # the first dispatch beyond the limit
        "consumer_most",  # messages
        "consumer_most_by",
        "subscription_claim",  # the same for the subscription
        "subscription_passes",
        "subscription_held_back",
        "subscription_kept_from_seq",
        "subscription_kept_to_seq",
        "subscription_passed_seq",
        "subscription_passed_at",  # the fewest messages at which more was read than that; 0: none was
        "subscription_held_at",  # the most messages at which it was held back
        "most_full",  # the most messages since it has reached its limit
        "subscription_passing",  # more was read since it reached its limit than one read explains
        "subscription_most",  # messages
        "contradicted_seq",  # the dispatch that completed the evidence against a claim
        "contradicted_ts",
        "full_since_ts",  # since when the subscription certainly is at its limit; 0: it is not
        "read_when_full",  # entries that were certainly read since
        "unread_ledger",  # a snapshot since then shows that nothing from here on was read; UNKNOWN: none
        "unread_entry",
    )
)


@checkpointed("waits")
class Waits(NamedTuple):
    """What `blocking` remembers: why entries wait, by hash, by consumer, and of the subscription."""

    hashes: Remembered  # of HASH_WAIT
    consumers: Remembered  # of CONSUMER_WAIT
    common: Remembered  # one of WAIT


@checkpointed("limits_seen")
class LimitsSeen(NamedTuple):
    """What `rules.limits_seen` remembers: how dispatches agree with the claimed limits of unacknowledged messages."""

    consumers: Remembered  # of CONSUMER_LIMIT
    common: Remembered  # one of LIMIT


@checkpointed("checks")
class Checks(NamedTuple):
    """What the rules remember: how often each was checked, and by entry the last finding that depends on its state."""

    counts: Keys
    evidence_seq: Keys
