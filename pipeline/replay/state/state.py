"""The state of one subscription: what the kernel knows between two events.

It consists of arrays of integer records, which compiled functions can take and the interpreter can show. It does not
grow with the length of a trace: an entry has a slot from its publish (or first dispatch) until mark-delete has passed
it and no consumer holds it; a hash has a slot while it is held, awaited or draining, or while an entry above
mark-delete could still break its order.

    entry:  absent -> WAITING -> pending at a consumer -> ACKED -> absent, once mark-delete has passed it
                         ^-------- returned -------|
    hash:   free -> held by one consumer -> free; held and moved away = draining, until nothing is held there
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.memories import (
    CONSUMER_LIMIT,
    CONSUMER_WAIT,
    HASH_WAIT,
    LIMIT,
    WAIT,
    Checks,
    LimitsSeen,
    Waits,
)
from dispatch_audit.pipeline.replay.state.pair_index import Slots, empty_table
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenRecords

Ints = NDArray[np.int64]
Records: TypeAlias = "np.recarray[Any, Any]"

NOBODY: Final = -1
UNKNOWN: Final = -1
UNLOOKED: Final = -2  # for the owner of a hash: not looked up yet

# Marks of an entry (`Entries.marks`), bits.
WAITING: Final = 1  # published or returned, and not held
SENT: Final = 2  # dispatched at least once since the last restart
DISPATCH_CONFIRMED: Final = 4  # its last dispatch was seen to reach the connection
ACKED: Final = 8  # deleted at the cursor
DELAYED: Final = 16  # published with a time before which it may not be delivered
MAYBE_SKIPPED: Final = 32  # held when an administrator moved mark-delete: the broker may have dropped it
RETURNED: Final = 64  # nacked, timed out, or its holder left, since its last dispatch
ACKED_WHILE_QUEUED: Final = 256  # deleted at the cursor while a read in flight may still send it, legitimately
NACKED: Final = 512  # returned by a redeliver command: the broker replays it without its hash (E1)
OVERTAKABLE: Final = 1024  # waits, but other entries may overtake it: NACKED, DELAYED or MAYBE_SKIPPED
READ: Final = 2048  # at or below the highest position that was dispatched, so the broker has read it
REPLAYED: Final = 4096  # its last dispatch came from the replay queue
REPEATED: Final = 8192  # its last dispatch was an early duplicate
REDELIVERED: Final = 16384  # its last dispatch came after its holder had left
COUNT_LOST: Final = 32768  # its redelivery count may be lower: acknowledged, if only in part, or its holder left first
SETTLING: Final = 65536  # the acknowledgement was received, its effect is not recorded yet
UNPUBLISHED: Final = 131072  # its publish has not been seen
PASSED: Final = 262144  # mark-delete passed it, and no row acknowledges it
VAGUE: Final = 524288  # its holder may have lost it: a row before the dispatch may have taken effect after it
BEFORE_RESET: Final = 1048576  # known before the last seek, unload or transfer, and not sent since
IN_BACKLOG: Final = 2097152  # it began to wait behind entries that the broker had not read
DUE: Final = 4194304  # DELAYED, and the time of its delivery has come
SENT_EARLY: Final = 8388608  # DELAYED, and last sent before its time: delayed delivery was off, and may be on again
NOT_DUE: Final = DELAYED | SENT | DUE
"""An entry whose marks among these are DELAYED alone may not be delivered yet."""
TRACKED: Final = DELAYED | SENT
"""An entry whose marks among these are DELAYED alone is in the tracker of delayed messages, not in replay (4.13)."""

# `resetting`: between the two rows of a reset both the old dispatcher and the new one may act.
NO_RESET: Final = 0
RESET_BEGUN: Final = 1  # the old dispatcher may still act
RESTARTED: Final = 2  # the old dispatcher is gone
RESET_ENDED: Final = 3  # the second row has come, but the moment of the restart has not

# `leaving` of a consumer.
LEAVING: Final = 1
CLOSED: Final = 2  # it was closed with the old dispatcher: its rows do not concern the new one

# `consumer_claim`, `subscription_claim`: what the trace claims of a limit.
CLAIM_STANDS: Final = 0
CLAIM_CONTRADICTED: Final = 1  # the kernel has stopped for it
CLAIM_DISREGARDED: Final = 2  # nothing is judged by it any more

# Indexes into `Checks.counts`.
DISPATCHES: Final = 0
FIRST_DELIVERIES: Final = 1
ACKNOWLEDGEMENTS: Final = 2
COUNTED_DISPATCHES: Final = 3  # those with a redelivery count
LIMITED_DISPATCHES: Final = 4  # those under a limit on unacknowledged messages
STICKY_DISPATCHES: Final = 5  # those to consumers that declared their hashes
CHECKED: Final = 6


# One open entry. `next` and `previous` chain the pending entries of a hash in the order of their dispatches, and the
# waiting ones in the order of their positions.
ENTRY = np.dtype(
    [
        ("ledger", np.int64),  # UNKNOWN: the slot is free
        ("entry", np.int64),
        ("key_id", np.int64),
        ("sent_seq", np.int64),
        ("before_seq", np.int64),  # the dispatch before the last one, while it has no end; UNKNOWN: none
        ("sent_ts", np.int64),  # microseconds; for an ACKED_WHILE_QUEUED entry the time of its acknowledgement
        ("since_seq", np.int64),  # when it last began to wait: published or returned
        ("since_ts", np.int64),
        ("read_ts", np.int64),  # since when it is READ
        ("due_ts", np.int64),  # by when the broker must deliver it, if it is DELAYED; UNKNOWN: no row says
        ("due_seq", np.int64),  # the last row before that, once it is DUE
        ("named_ts", np.int64),  # when a redeliver row of a consumer that did not hold it named it
        ("murmur", np.int32),
        ("hash_at", np.int32),  # slot of its hash
        ("messages", np.int32),
        ("unacked", np.int32),  # its messages in the unacked count of its holder
        ("redelivered", np.int32),  # redeliver commands that returned it since the last restart
        ("marks", np.int32),
        ("holder", np.int32),
        ("sent_to", np.int32),
        ("before_to", np.int32),
        ("named_by", np.int32),
        ("next", np.int32),
        ("previous", np.int32),
        ("words_at", np.int32),  # where its ack set begins in `State.words`; UNKNOWN: it has none
        ("words", np.int32),
    ]
)

# One sticky hash in use. `holder` holds `held` entries of it; `held_elsewhere` counts the entries that others hold,
# which is 0 while the broker keeps its promise. A draining episode is open while `draining_seq` is not UNKNOWN; `away`
# says whether another consumer than the holder owns the hash at the moment.
HASH = np.dtype(
    [
        ("hash", np.int64),  # UNKNOWN: the slot is free
        ("zero", np.int64),  # second half of the index key, always 0
        ("holder", np.int32),
        ("held", np.int32),
        ("held_elsewhere", np.int32),
        ("held_max", np.int32),  # the most entries of it that all consumers held at one time
        ("first", np.int32),  # pending, by dispatch
        ("last", np.int32),
        ("queue_first", np.int32),  # waiting, by position
        ("queue_last", np.int32),
        ("aside_first", np.int32),  # waiting and OVERTAKABLE, by position
        ("aside_last", np.int32),
        ("near", np.int32),  # the entry that was added last to either queue
        ("waiting", np.int32),
        ("ready", np.int32),  # those of them that are not delayed, or due
        ("came", np.int64),  # how often an entry began to be one of those
        ("waiting_since_seq", np.int64),  # since when at least one entry of it has waited all the time, if any waits
        ("waiting_since_ts", np.int64),
        ("top_ledger", np.int64),  # the highest first delivery
        ("top_entry", np.int64),
        ("top_seq", np.int64),
        ("top_ts", np.int64),
        ("top_key_id", np.int64),
        ("top_consumer", np.int32),
        ("away", np.int32),
        ("waiting_messages", np.int64),
        ("draining_seq", np.int64),
        ("draining_ts", np.int64),
        ("doubtful_to_seq", np.int64),  # an episode that ends in front of it may have had nothing pending at first
        ("new_owner", np.int32),
        ("held_at_start", np.int32),
        ("root_ledger", np.int64),
        ("root_entry", np.int64),
        ("returned_seq", np.int64),
        ("returned_ts", np.int64),
        ("blocked_seq", np.int64),  # since when an entry waited in the episode; UNKNOWN: none has
        ("blocked_ts", np.int64),
        ("awaited", np.int64),  # how often an entry began to wait in the episode; once more after a return
        ("registered", np.int64),  # how often the broker began to count its pending entries as draining, at one holder
        ("left_sent_seq", np.int64),  # the last dispatch of an entry that a leaver had held; UNKNOWN: none
        ("drained_from", np.int32),  # the holder when it last drained; NOBODY: it never drained
        ("owner", np.int32),
        ("free_ts", np.int64),  # since when its owner is the same and no other consumer holds it
        ("idle_us", np.int64),  # message-microseconds waited while it could be served
        ("summed_to_ts", np.int64),
        ("waited_us", np.int64),  # message-microseconds waited in the episode
    ]
)

# One consumer, in the order in which the trace names them first.
CONSUMER = np.dtype(
    [
        ("connected", np.int64),
        ("leaving", np.int64),  # LEAVING, CLOSED: what it holds is no longer certain
        ("redeliver_ts", np.int64),  # when it last returned all its pending entries; 0: it never did
        ("dispatched", np.int64),
        ("acked", np.int64),
        ("held", np.int64),  # entries
        ("unacked", np.int64),  # messages
        ("uncounted", np.int64),  # the broker may count so many more, skipped while held or sent twice (E6, F10)
        ("maybe_skipped", np.int64),  # those of them in MAYBE_SKIPPED entries: the broker may have dropped them
        ("joined_ledger", np.int64),  # the highest position dispatched when it joined; UNKNOWN: none was
        ("joined_entry", np.int64),
        ("published_at_join_ledger", np.int64),  # the highest position published when it joined; UNKNOWN: none was
        ("published_at_join_entry", np.int64),
        ("permits", np.int64),  # messages that it asked for and was not sent, as far as the trace shows
        ("blocked", np.int64),  # it has reached its limit of unacked messages, and is not back at half of it (4.14)
        ("unblocked_ts", np.int64),  # when it was last unblocked
        ("withheld", np.int64),  # permits that count only when it is unblocked
        ("sent_ledger", np.int64),  # its last dispatch
        ("sent_entry", np.int64),
        ("sent_ts", np.int64),
        ("named_seq", np.int64),  # the last row, or snapshot, that shows it connected
        ("gave_up_seq", np.int64),  # the last row that took entries from it: an acknowledgement, a redeliver, ...
        ("gave_up_ts", np.int64),
        ("gave_up", np.int64),  # how many this row took
        ("gave_up_ledger", np.int64),  # the oldest of them
        ("gave_up_entry", np.int64),
    ]
)


# The values of the subscription as a whole: one record.
COMMON = np.dtype(
    [
        ("free_entries", np.int64),
        ("free_hashes", np.int64),
        ("words_used", np.int64),
        ("connected", np.int64),
        ("ledgers", np.int64),
        ("mark_delete_ledger", np.int64),  # as the acknowledgements show it; UNKNOWN before the first position
        ("mark_delete_entry", np.int64),
        ("floor_ledger", np.int64),  # the first mark-delete: acknowledgements at or below may be missing in the trace
        ("floor_entry", np.int64),
        ("resetting", np.int64),  # the phase of a seek, unload or transfer: NO_RESET, RESET_BEGUN, ...
        ("acks_seen", np.int64),  # a row of an acknowledgement came
        ("starts_seen", np.int64),  # the recorder writes the decision of a dispatch, not only its end
        ("highest_dispatched_ledger", np.int64),  # since the last restart; UNKNOWN before the first
        ("highest_dispatched_entry", np.int64),
        ("in_replay", np.int64),  # waiting entries that were read: at least so many are in replay
        ("counts_indexes", np.int64),  # acknowledgmentAtBatchIndexLevelEnabled
        ("waiting", np.int64),  # entries that wait to be sent and are not delayed
        ("waiting_since_ts", np.int64),  # since when there have been such entries
        ("last_dispatch_seq", np.int64),  # the last dispatch
        ("last_dispatch_ts", np.int64),
        ("second_last_ts", np.int64),  # when the message before the last one was sent,
        ("third_last_ts", np.int64),  # and the one before that
        ("permits_known_by", np.int64),  # the trace shows permits, by flow rows or snapshots
        ("next_due_ts", np.int64),  # when delayed entries are looked at next; UNKNOWN: none waits
        ("last_seq", np.int64),  # the last row of the stretch before
        ("look_ahead_limit", np.int64),  # entries in replay; 0: none
        ("unacked_max", np.int64),  # messages that a consumer holds at most, certainly; 0: no limit, or not known
        ("blocks_at", np.int64),  # from so many messages on a consumer may be blocked; 0: never
        ("subscription_max", np.int64),  # the same two for the subscription
        ("unacked_limit", np.int64),
        ("read_batch_max", np.int64),  # entries of one read
        ("publish_skew_us", np.int64),  # how much later than its entry the row of a publish may come
        ("full", np.int64),  # reached `subscription_max`, and not yet back at half of it
        ("total_vague", np.int64),  # the broker's own count may be lower: a holder left, or another one acknowledged
        ("unacked", np.int64),
        ("consumer_said", np.int64),  # a row says the limit of unacknowledged messages of a consumer
        ("subscription_said", np.int64),  # and that of the subscription
        ("blocked_on_unacked", np.int64),  # reached `unacked_limit`, and not yet back at half of it (4.14)
        ("first_published_ledger", np.int64),  # the lowest position whose publish was seen; UNKNOWN: none
        ("first_published_entry", np.int64),
        ("last_published_ledger", np.int64),
        ("last_published_entry", np.int64),
        ("without_publish", np.int64),  # entries that are UNPUBLISHED, or were until they were forgotten
        ("waiting_since_seq", np.int64),
        ("unseen_until_ts", np.int64),  # rows until then may be from before the last reset
        ("skip_begun_ts", np.int64),  # when an administrator last moved mark-delete
        ("skip_until_ts", np.int64),  # entries that were published up to then may have been skipped
        ("jumped_from_ledger", np.int64),  # the last jump of mark-delete, which may pass unacknowledged entries
        ("jumped_from_entry", np.int64),
        ("jumped_to_ledger", np.int64),  # the end of that jump
        ("jumped_to_entry", np.int64),
        ("jumped_ts", np.int64),  # when mark-delete last jumped; UNKNOWN: it never did
    ]
)


@checkpointed("state")
class State(NamedTuple):
    """The dispatcher's state, which its transitions alone write, and the memories of its observers.

    `ledger_*` are the ledgers seen, ascending, with the first and last entry of each. `routing` is the one in force;
    its owners are indexes of consumers.
    """

    entries: Records  # of ENTRY
    entry_table: Slots
    entries_free: Ints
    hashes: Records  # of HASH
    hash_table: Slots
    hashes_free: Ints
    consumers: Records  # of CONSUMER
    words: Ints
    ledger_ids: Ints
    ledger_firsts: Ints
    ledger_ends: Ints
    common: Records  # one of COMMON
    routing: Routing
    waits: Waits
    limits: LimitsSeen
    checks: Checks


def common_of(state: Seen) -> Mapping[str, Any]:
    """The values of the subscription as a whole, to be read by name."""
    values: Mapping[str, Any] = record_of(state.common, COMMON)
    return values


def record_of(records: SeenRecords, dtype: "np.dtype[np.void]", at: int = 0) -> Any:
    """One of the records, to be read and set by name: record arrays look up each name in Python, which is slow."""
    whole: Any = records
    return np.frombuffer(whole, dtype)[at]


def together(parts: Sequence[Records]) -> Records:
    """The records of all parts, one after the other, as numpy would take them together field by field."""
    raw = np.concatenate([part.view(np.ndarray).view(np.uint8) for part in parts])
    records: Records = raw.view(parts[0].dtype).view(np.recarray)
    return records


def first_of(records: Records, count: int) -> Records:
    """A copy of the first records; a record array that is cut by itself looks up its type twice on the way."""
    found: Records = records.view(np.ndarray)[:count].copy().view(np.recarray)
    return found


def chosen(records: Records, index: NDArray[Any]) -> Records:
    """The records that an index or a mask selects; numpy copies records field by field, and this copies them whole."""
    whole = records.view(np.ndarray).view(np.dtype((np.void, records.dtype.itemsize)))
    found: Records = whole[index].view(records.dtype).view(np.recarray)
    return found


_UNKNOWN_AT_FIRST = (
    "mark_delete_ledger",
    "highest_dispatched_ledger",
    "first_published_ledger",
    "last_published_ledger",
    "unseen_until_ts",
    "skip_begun_ts",
    "skip_until_ts",
    "jumped_ts",
    "next_due_ts",
)
# Of the memory of waits.
_NOT_WAITING = (
    "look_ahead_since_ts",
    "blocked_on_unacked_since_ts",
    "blocked_on_unacked_until_ts",
    "join_release_ledger",
)


def new_state(entries: int, hashes: int, consumers: int, words: int, ledgers: int) -> State:
    """The state of a subscription before its first event, with room for that many records of each kind."""
    common, waits, limits = zeros(COMMON, 1), zeros(WAIT, 1), zeros(LIMIT, 1)
    common["free_entries"], common["free_hashes"] = entries, hashes
    for records, names in ((common, _UNKNOWN_AT_FIRST), (waits, _NOT_WAITING), (limits, ("unread_ledger",))):
        for name in names:
            records[name] = UNKNOWN
    return State(
        entries=blank(ENTRY, entries),
        entry_table=empty_table(entries),
        entries_free=free_slots(entries),
        hashes=blank(HASH, hashes),
        hash_table=empty_table(hashes),
        hashes_free=free_slots(hashes),
        consumers=zeros(CONSUMER, consumers),
        words=np.zeros(words, dtype=np.int64),
        ledger_ids=np.zeros(ledgers, dtype=np.int64),
        ledger_firsts=np.zeros(ledgers, dtype=np.int64),
        ledger_ends=np.zeros(ledgers, dtype=np.int64),
        common=common,
        routing=routing_of_ranges(()),
        waits=Waits(blank(HASH_WAIT, hashes), zeros(CONSUMER_WAIT, consumers), waits),
        limits=LimitsSeen(zeros(CONSUMER_LIMIT, consumers), limits),
        checks=Checks(np.zeros(CHECKED, dtype=np.int64), np.full(entries, UNKNOWN, dtype=np.int64)),
    )


def zeros(dtype: "np.dtype[np.void]", count: int) -> Records:
    """Records whose fields are 0."""
    return np.zeros(count, dtype=dtype).view(np.recarray)


def blank(dtype: "np.dtype[np.void]", slots: int) -> Records:
    """Free slots: every field is UNKNOWN; the first field marks a slot as free."""
    return np.full(slots * dtype.itemsize, -1, dtype=np.int8).view(dtype).view(np.recarray)


def free_slots(rows: int) -> Ints:
    """A stack of the slots 0 to rows - 1."""
    # Popped from the end, so slots are handed out in ascending order.
    return np.arange(rows - 1, -1, -1, dtype=np.int64)


# Values of `permits_known_by`.
BY_FLOWS: Final = 1
BY_SNAPSHOTS: Final = 2
