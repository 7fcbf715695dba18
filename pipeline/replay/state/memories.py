"""What the observers of the dispatcher remember: each writes its own memory, and reads everything else.

A memory has a record for each slot of the dispatcher's hashes or consumers, or one for the subscription. It grows with
them (`dispatcher.allocation`) and begins anew with a slot, so an observer may be left out and nothing else changes.
"""

from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.records import (
    BEGINNING,
    NO_POINT,
    NOWHERE,
    STOPPED,
    UNKNOWN,
    Ints,
    RecordKind,
    Records,
)

# Why the entries of one hash wait, and since when it could be served.
HASH_WAIT = RecordKind(
    "hash_wait",
    {
        "clear": NO_POINT,  # since when it could be served and was not, if an entry waits
        "clear_unavailable_us": UNKNOWN,  # the time until then in which its owner could be sent nothing
        "clear_unserved_us": UNKNOWN,  # and that in which the broker did not read for it
        "clear_look_ahead_us": UNKNOWN,  # the time until then in which the look-ahead limit was reached
        "clear_full_us": UNKNOWN,  # the time until then in which the subscription was blocked on unacked messages
        "clear_idle_us": UNKNOWN,  # what its entries had waited until then (`HASH.idle_us`)
        "owned_ts": 0,  # since when its owner is the same
        "free_ts": 0,  # since when no other consumer holds it, and its former owners, if any, could be sent something
        # The row that shows that the broker has read the first waiting entry; no point: it was read before it was the
        # first one, or was not read.
        "read": NO_POINT,
        "read_unserved_us": UNKNOWN,  # the time until then in which the broker did not read for its owner
        "why": UNKNOWN,  # the cause of the open interval, see `causes`; READY: none is open
        "why_since": NO_POINT,
        "why_to": NO_POINT,
        "why_ended_by": UNKNOWN,
        "why_us": UNKNOWN,
        "why_entries": UNKNOWN,
        "why_ready_before": UNKNOWN,  # how many had been ready before it began, and did not wait any more
        "why_first": NOWHERE,
    },
)

# Why one consumer can be sent nothing.
CONSUMER_WAIT = RecordKind(
    "consumer_wait",
    {
        "cause": 0,  # why it can be sent nothing, see `causes`; READY: it can
        "former": 0,  # the value of `cause` before that
        "unserved": STOPPED,  # runs while the broker does not read for it
        "counts_more": 0,  # so many messages more than rows show it has unacknowledged, by snapshots (E6, F10)
        "short_since_ts": 0,  # since when every snapshot shows that it can be sent nothing; 0: the last one does not
        "recent": 0,  # it joined recently and gets no new entries (3.x and classic)
    },
    lasting={
        "cause_since": BEGINNING,
        "unavailable_us": 0,  # the time in which it could be sent nothing, without the open interval
    },
)

# Why the subscription is sent nothing, and when the kernel has to stop for the observer.
WAIT = RecordKind(
    "wait",
    {
        "look_ahead": STOPPED,  # runs while replay is about at `look_ahead_limit`
        "blocked_on_unacked": STOPPED,  # runs while the subscription is
        "stopped_at_seq": 0,  # the row before which the kernel has stopped for a stall
        "looked_ts": 0,  # when it last stopped in front of a row that takes entries from consumers in a stall
        "join_release": NOWHERE,  # where mark-delete releases a recently joined consumer; UNKNOWN: nowhere
    },
    lasting={
        "blocked_on_unacked_until_ts": UNKNOWN,  # until when it last was blocked on unacked messages
        "next_sample_ts": 0,  # when the next capacity sample is due
    },
)

# How one consumer stands to the claimed limit of unacknowledged messages.
CONSUMER_LIMIT = RecordKind(
    "consumer_limit",
    {
        "passed_ts": 0,  # the first dispatch of the last read that went beyond the limit
    },
    lasting={
        "largest": 0,  # the most messages in an entry that it was sent
        "granted": 0,  # the entries that a read may yet have for it
        "granted_ts": 0,  # the first dispatch of that read
    },
)

# What speaks for and against one claimed limit of unacknowledged messages.
CLAIM = RecordKind(
    "claim",
    {},
    lasting={
        "claim": 0,  # whether the broker respects it: CLAIM_STANDS, ...
        "passes": 0,  # how often more was sent than it and batches allow
        "passed_seq": 0,  # the first dispatch beyond it
        "most": 0,  # messages
        "contradicted": BEGINNING,  # the dispatch that completed the evidence against it
    },
)

# How the subscription stands to its limit.
LIMIT = RecordKind(
    "limit",
    {
        "passing": 0,  # more was read since the subscription reached its limit than one read explains
        "full_since_ts": 0,  # since when the subscription certainly is at its limit; 0: it is not
        "unacked": 0,  # the unacknowledged messages after the row before
        "read_when_full": 0,  # entries that were certainly read since
        "read_full_ts": 0,  # the dispatch of the first of them; 0: there is none
        "unread": NOWHERE,  # a snapshot since then shows that nothing from here on was read; UNKNOWN: none
    },
)


@checkpointed("waits")
class Waits(NamedTuple):
    """What `blocking` remembers: why entries wait, by hash, by consumer, and of the subscription."""

    hashes: Records  # of HASH_WAIT
    consumers: Records  # of CONSUMER_WAIT
    common: Records  # one of WAIT


@checkpointed("limits_seen")
class LimitsSeen(NamedTuple):
    """What rules remember of limits: how dispatches agree with the claimed limits of unacknowledged messages."""

    consumers: Records  # of CONSUMER_LIMIT
    claims: Records  # of CLAIM, two: OF_CONSUMER, OF_SUBSCRIPTION
    common: Records  # one of LIMIT


@checkpointed("checks")
class Checks(NamedTuple):
    """What the rules remember: how often each was checked, and by entry the last finding that depends on its state."""

    counts: Ints
    evidence_seq: Ints
