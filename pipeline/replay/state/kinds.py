"""The records of the dispatcher's state: an entry, a hash, a consumer, and the subscription as a whole."""

from dispatch_audit.pipeline.replay.state.output import KernelEpisode
from dispatch_audit.pipeline.replay.state.records import (
    BEGINNING,
    FIRST,
    NO_POINT,
    NO_QUEUE,
    NOBODY,
    NOWHERE,
    UNKNOWN,
    RecordKind,
)
from dispatch_audit.pipeline.replay.state.values import DELAYS_ON, UNLOOKED

# One open entry. `next` and `previous` chain the pending entries of a hash in the order of their dispatches, and the
# waiting ones in the order of their positions.
ENTRY = RecordKind(
    "entry",
    {
        "ledger": UNKNOWN,  # UNKNOWN: the slot is free
        "entry": UNKNOWN,
        "key_id": UNKNOWN,
        "before_seq": UNKNOWN,  # the dispatch before the last one, while it has no end; UNKNOWN: none
        "sent_at": NO_POINT,  # its last dispatch
        "acked_ts": UNKNOWN,  # when it became ACKED_WHILE_QUEUED
        "since": NO_POINT,  # when it last began to wait: published or returned
        "read_ts": UNKNOWN,  # since when it is READ
        "named_ts": UNKNOWN,  # when a redeliver row of a consumer that did not hold it named it
        "due": NO_POINT,  # by when the broker must deliver it, if it is DELAYED; the row: once it is DUE
    },
    narrow={
        "murmur": UNKNOWN,
        "hash_at": UNKNOWN,  # slot of its hash
        "messages": 1,
        "unacked": 0,  # its messages in the unacked count of its holder
        "times_sent": 0,  # dispatches, also before a reset
        "redelivered": 0,  # redeliver commands that returned it since the last restart
        "marks": 0,
        "holder": NOBODY,
        "sent_to": NOBODY,
        "before_to": NOBODY,
        "also_at": NOBODY,  # who held it when it was sent to another consumer: it is pending there too (F10)
        "named_by": NOBODY,
        "next": NOBODY,
        "previous": NOBODY,
        "words_at": UNKNOWN,  # where its ack set begins in `State.words`; UNKNOWN: it has none
        "words": 0,
    },
)


# One sticky hash in use. `holder` holds `held` entries of it; `held_elsewhere` counts the entries that others hold,
# which is 0 while the broker keeps its promise. `away` says whether another consumer than the holder owns the hash at
# the moment.
HASH = RecordKind(
    "hash",
    {
        "hash": UNKNOWN,  # UNKNOWN: the slot is free
        "became_ready": 0,  # how often an entry began to be `ready`
        "waiting_since": NO_POINT,  # since when at least one entry of it has waited all the time, if any waits
        "top": NOWHERE,  # the highest first delivery
        "top_at": NO_POINT,  # that dispatch
        "top_key_id": UNKNOWN,
        "waiting_messages": 0,
        "episode": KernelEpisode(),  # the draining episode that is open, or was the last one
        "moved_by_seq": UNKNOWN,  # in front of it the change that began the episode has certainly taken effect
        "registered": 0,  # how often the broker began to count its pending entries as draining, at one holder
        "left_sent_seq": UNKNOWN,  # the last dispatch of an entry that a leaver had held; UNKNOWN: none
        "idle_us": 0,  # message-microseconds waited while it could be served
        "summed_to_ts": 0,
    },
    narrow={
        "holder": NOBODY,
        "held": 0,
        "held_elsewhere": 0,
        "held_max": 0,  # the most entries of it that all consumers held at one time
        "first": NOBODY,  # pending, by dispatch
        "last": NOBODY,
        "queue": NO_QUEUE,  # waiting, by position
        "aside": NO_QUEUE,  # waiting and OVERTAKABLE, by position
        "near": NOBODY,  # the entry that was added last to either queue
        "waiting": 0,
        "ready": 0,  # waiting entries that are not delayed, or due
        "top_consumer": NOBODY,
        "away": 0,
        "drained_from": NOBODY,  # the holder when it last drained; NOBODY: it never drained
        "owner": UNLOOKED,
    },
)


# One consumer, in the order in which the trace names them first.
CONSUMER = RecordKind(
    "consumer",
    {
        "held": 0,  # entries
        "unacked": 0,  # messages
        "maybe_skipped": 0,  # those of `unacked` in MAYBE_SKIPPED entries, or acknowledged twice: it may not count them
        "permits": 0,  # messages that it asked for and was not sent, as far as the trace shows
        "certain_permits": 0,  # of them certain since the last snapshot: rows do not show what it asks for after that
        "blocked": 0,  # it has reached its limit of unacked messages, and is not back at half of it (4.14)
        "withheld": 0,  # permits that count only when it is unblocked
    },
    lasting={
        "connected": 0,
        "leaving": 0,  # LEAVING, CLOSED: what it holds is no longer certain
        "redeliver_ts": 0,  # when it last returned all its pending entries; 0: it never did
        "dispatched": 0,
        "acked": 0,
        "uncounted": 0,  # the broker may count so many more, skipped while held or sent twice (E6, F10)
        "dispatched_at_join": FIRST,  # the highest position dispatched when it joined; UNKNOWN: none was
        "published_at_join": FIRST,  # the highest position published when it joined; UNKNOWN: none was
        "unblocked_ts": 0,  # when it was last unblocked
        "sent": FIRST,  # its last dispatch
        "sent_ts": 0,
        "named_seq": 0,  # the last row, or snapshot, that shows it connected
        "gave_up_at": BEGINNING,  # the last row that took entries from it: an acknowledgement, a redeliver, ...
        "gave_up": 0,  # how many this row took
        "gave_up_first": FIRST,  # the oldest of them
        "longest_us": 0,  # the longest time for which it held an entry that it acknowledged
        "acked_sent_seq": UNKNOWN,  # the latest dispatch of an entry that it acknowledged
    },
)


# One ledger that the trace has named, with its first and last entry there.
LEDGER = RecordKind("ledger", {"ledger": 0, "first": 0, "end": 0})


# The values of the subscription as a whole: one record.
COMMON = RecordKind(
    "common",
    {
        "free_entries": 0,
        "free_hashes": 0,
        "words_used": 0,
        "ledgers": 0,
        "first_published": NOWHERE,  # the lowest position whose publish was seen; UNKNOWN: none since a gap
        "mark_delete": NOWHERE,  # as the acknowledgements show it; UNKNOWN before the first position
        "jumped_from": FIRST,  # the last jump of mark-delete, which may pass unacknowledged entries
        "jumped_to": FIRST,  # the end of that jump
        "jumped_ts": UNKNOWN,  # when mark-delete last jumped; UNKNOWN: it never did
        "floor": FIRST,  # the first mark-delete: acknowledgements at or below may be missing in the trace
        "in_replay": 0,  # waiting entries that were read, as dispatches show: at least so many are in replay
        "waiting": 0,  # entries that wait to be sent and are not delayed
        "waiting_since": BEGINNING,  # since when there have been such entries
        "permits_known_by": 0,  # the trace shows permits, by flow rows or snapshots
        "next_due_ts": UNKNOWN,  # when delayed entries are looked at next; UNKNOWN: none waits
        "total_vague": 0,  # the broker's own count may be lower: a holder left, or some was acknowledged twice
        "unacked": 0,
        "settling": 0,  # messages in SETTLING entries: the broker may still count them
        "blocked_on_unacked": 0,  # reached `unacked_limit`, and not yet back at half of it (4.14)
        "perhaps_blocked": 0,  # perhaps reached it with what was settling, and not yet back at half of it
        "deleted_before": NOWHERE,  # the highest mark-delete before a reset
        "shown_ts": UNKNOWN,  # when a snapshot last showed mark-delete; UNKNOWN: none has
        "written_late_since_ts": 0,  # the last dispatch whose end took as long as a stall,
        "written_late_ts": 0,  # that end; 0: there was none
        "written_late_to": 0,  # and its receiver
    },
    lasting={
        "connected": 0,
        "resetting": 0,  # the phase of a seek, unload or transfer: Reset.NONE, Reset.BEGUN, ...
        "acks_seen": 0,  # the trace has a row of an acknowledgement
        "starts_seen": 0,  # the recorder writes the decision of a dispatch, not only its end
        "highest_dispatched": NOWHERE,  # since the last restart; UNKNOWN before the first
        "left_behind": NOWHERE,  # the highest position that was read before the last rewind, or may have been
        "rewound": NO_POINT,  # the row at which the cursor was rewound last
        "reported_read": NOWHERE,  # the read position of the last snapshot since then; UNKNOWN: none says it
        "ack_sets": 0,  # what ack sets do: SETS_IGNORED, SETS_DELETE, SETS_COUNT
        "sampled": 0,  # rows have some of the hashes only, so an entry that is not here may be of another one
        "released_unseen": 0,  # of such rows: mark-delete may have released entries that were acknowledged piecewise
        "last_dispatch": BEGINNING,  # the last dispatch
        "last_seq": 0,  # the last row of the stretch before
        "look_ahead_limit": 0,  # entries in replay; 0: none
        "unacked_max": 0,  # messages that a consumer holds at most, certainly; 0: no limit, or not known
        "blocks_at": 0,  # from so many messages on a consumer may be blocked; 0: never
        "subscription_max": 0,  # the same two for the subscription
        "unacked_limit": 0,
        "read_batch_max": 0,  # entries of one read
        "publish_skew_us": 0,  # how much later than its entry the row of a publish may come
        "consumer_said": 0,  # a row says the limit of unacknowledged messages of a consumer
        "subscription_said": 0,  # and that of the subscription
        "last_published": NOWHERE,
        "published_at_reset": NOWHERE,  # at the last seek, unload or transfer; UNKNOWN: there was none
        "without_publish": 0,  # entries that are UNPUBLISHED, or were until they were forgotten
        "unseen_until_ts": UNKNOWN,  # rows until then may be from before the last reset
        "skip_begun_ts": UNKNOWN,  # when mark-delete was last moved over what is held
        "skip_until_ts": UNKNOWN,  # entries that were published up to then may have been skipped
        "first_join_seq": UNKNOWN,  # when the first had joined: before it the subscription may not have been there
        "never_sent": 0,  # entries that mark-delete passed, sent to nobody and acknowledged by no consumer
        "never_sent_first": NOWHERE,  # the first of them
        "never_sent_since": BEGINNING,  # since when it had waited
        "never_sent_key": UNKNOWN,  # the key of all of them; UNKNOWN: they have several
        "delays": DELAYS_ON,  # whether the broker heeds delayed delivery: DELAYS_ON, ...
        "delays_in_doubt": 0,  # a delayed entry was published while trace.json alone said that they are off
    },
)
