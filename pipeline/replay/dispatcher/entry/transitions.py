"""The transitions of an entry: the state that follows from each event in each state (contract 3, 4 and 5).

    event               absent    waiting   pending   acked     sent again  unsure   contract
    publish             waiting   -         -         -         -           -        4.2
    publish in a txn    unsure    -         -         -         -           -        9.3, E11
    dispatch            pending   pending   pending   again     again       pending  4.10
    ack                 acked     acked     acked     -         acked       acked    5.1, 5.2
    ack in a txn        unsure    unsure    unsure    -         acked       unsure   5.5
    redeliver           -         -         waiting   -         acked       -        5.6
    leave               -         -         waiting   -         acked       -        3.6
    reset               -         unsure    unsure    unsure    unsure      -        5.10
    mark-delete moves   -         acked     -         absent    acked       -        3.11, 5.10

A dash leaves the entry as it was: an event that the state does not allow changes nothing. `redeliver` and `leave` are
those of the holder. Acknowledgements move mark-delete up to the first entry that is not acked; an administrator or the
broker's own report moves it past waiting entries too, and, on brokers that release those, past pending ones.

How the states show in a slot:

    absent        there is no slot
    waiting       WAITING; with RETURNED after a redeliver or leave, with NACKED after a redeliver
    pending       `holder` is a consumer; SENT, and DISPATCH_CONFIRMED once it reached the connection
    acked         ACKED and no holder; it keeps its slot while mark-delete is below, or its ack is SETTLING, or for as
                  long as a read in flight may send it (`entries.free_entry`)
    sent again    ACKED and a holder: a dispatch that rule early_duplicate reports
    unsure        BEFORE_RESET, IN_TRANSACTION: no row says whether it waits
"""

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.wait_causes import note_free
from dispatch_audit.pipeline.replay.dispatcher.entry.draining import end_episode
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import free_entry, note_read, note_unsent, was_passed
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import stop_waiting
from dispatch_audit.pipeline.replay.dispatcher.flow_control import charge, messages_left
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import By, Output
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, position_of, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import State
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, UNSURE, Mark

# The marks that a dispatch removes.
_UNTIL_SENT = (
    Mark.DISPATCH_CONFIRMED
    | Mark.MAYBE_SKIPPED
    | Mark.RETURNED
    | Mark.FROM_BEFORE
    | Mark.ACKED_WHILE_QUEUED
    | Mark.NACKED
    | Mark.REPLAYED
    | Mark.REDELIVERED
    | Mark.COUNT_LOST
    | Mark.VAGUE
    | UNSURE
    | Mark.IN_BACKLOG
    | Mark.CLAIMED_DUE
)


@compiled
def shows_cursor(state: State, slot: int, ts: int) -> bool:
    """Whether a dispatch shows how far the cursor has read since it was rewound; ask before the dispatch is noted.

    What was sent since the rewind, or acknowledged in replay, comes from replay. What waited before the rewind may do
    so too: a read in flight as the last consumer left sends what it has to the next one, or puts it into replay (3.5,
    3.6).
    """
    common, entries = state.common, state.entries
    if max(entries[slot].sent_at.ts_us, entries[slot].acked_ts) > common[0].rewound.ts_us:
        return False
    left_behind = position_of(common[0].left_behind)
    waited = entries[slot].since.seq < common[0].rewound.seq and position_of(entries[slot]) <= left_behind
    return bool(not waited or ts > common[0].rewound.ts_us + READ_US)


@compiled
def add_pending(state: State, slot: int, consumer: int, point: TracePoint) -> None:
    """Makes the entry pending at `consumer`; the caller has removed it from other consumers."""
    entries, hashes = state.entries, state.hashes
    # A read in flight may send entries that an administrator has skipped meanwhile (E6).
    doubtful = entries[slot].marks & Mark.MAYBE_SKIPPED != 0 and point.ts_us <= state.common[0].skip_begun_ts + READ_US
    stop_waiting(state, slot, point.ts_us)
    at = entries[slot].hash_at
    _note_sent(state, slot, consumer, point)
    shows_read = shows_cursor(state, slot, point.ts_us)
    entries[slot].sent_to = consumer
    set_point(entries[slot].sent_at, point)
    replayed = entries[slot].marks & (Mark.READ | Mark.RETURNED) != 0
    left_behind = entries[slot].marks & (Mark.RETURNED | Mark.NACKED) == Mark.RETURNED
    again = entries[slot].holder == consumer
    if again and entries[slot].marks & Mark.MAYBE_SKIPPED != 0 and not doubtful:
        # It holds the entry for certain from now on.
        state.consumers[consumer].maybe_skipped -= entries[slot].unacked
    entries[slot].marks = (entries[slot].marks | Mark.SENT) & ~_UNTIL_SENT
    if replayed:
        entries[slot].marks |= Mark.REPLAYED
    if not shows_read:
        entries[slot].marks |= Mark.FROM_BEFORE
    if left_behind:
        entries[slot].marks |= Mark.REDELIVERED
        hashes[at].left_sent_seq = point.seq
    if doubtful:
        entries[slot].marks |= Mark.MAYBE_SKIPPED
    if shows_read:
        note_read(state, entries[slot].ledger, entries[slot].entry, point)
    if again:
        # Sent once more to its holder (E17): it stays pending there, so no draining ends. The broker counts it twice.
        state.consumers[consumer].uncounted += entries[slot].unacked
        return
    entries[slot].holder = consumer
    entries[slot].unacked = messages_left(state, slot)
    state.consumers[consumer].held += 1
    charge(state, slot, consumer, entries[slot].unacked)
    last = hashes[at].last
    entries[slot].previous = last
    entries[slot].next = NOBODY
    if last >= 0:
        entries[last].next = slot
    else:
        hashes[at].first = slot
    hashes[at].last = slot
    if hashes[at].held == 0:
        hashes[at].holder = consumer
    if hashes[at].holder == consumer:
        hashes[at].held += 1
    else:
        hashes[at].held_elsewhere += 1
    hashes[at].held_max = max(hashes[at].held_max, hashes[at].held + hashes[at].held_elsewhere)


@compiled
def _note_sent(state: State, slot: int, consumer: int, point: TracePoint) -> None:
    common, receiver = state.common, state.consumers[consumer]
    set_point(common[0].last_dispatch, point)
    set_position(receiver.sent, state.entries[slot])
    receiver.sent_ts = point.ts_us
    # Without flow rows the permits between two snapshots are unknown, but a dispatch shows that there was one.
    messages = messages_left(state, slot)
    receiver.permits = receiver.permits - messages if common[0].permits_known_by == BY_FLOWS else 1
    receiver.certain_permits -= messages


@compiled
def remove_pending(state: State, out: Output, slot: int, point: TracePoint, ended_by: int) -> None:
    """Ends the pending state of an entry; the last entry of the holder ends the draining of its hash."""
    entries, hashes = state.entries, state.hashes
    at = entries[slot].hash_at
    previous, following = entries[slot].previous, entries[slot].next
    if previous >= 0:
        entries[previous].next = following
    else:
        hashes[at].first = following
    if following >= 0:
        entries[following].previous = previous
    else:
        hashes[at].last = previous
    holder = entries[slot].holder
    # If the row ends a wait, it waited for the oldest entry that the row takes from its holder.
    by, first = state.consumers[holder], state.consumers[holder].gave_up_at.seq != point.seq
    set_point(by.gave_up_at, point)
    by.gave_up = 1 if first else by.gave_up + 1
    if first or position_of(entries[slot]) < position_of(by.gave_up_first):
        set_position(by.gave_up_first, entries[slot])
    entries[slot].holder = NOBODY
    state.consumers[holder].held -= 1
    charge(state, slot, holder, -entries[slot].unacked)
    if holder != hashes[at].holder:
        hashes[at].held_elsewhere -= 1
        return
    hashes[at].held -= 1
    if hashes[at].held > 0:
        return
    if hashes[at].episode.from_seq != UNKNOWN:
        end_episode(state, out, at, point, ended_by)
        note_free(state, at, point)
    # If other consumers hold entries, which breaks the promise, the receiver of the oldest dispatch becomes the holder.
    held = hashes[at].first
    hashes[at].holder = entries[held].holder if held >= 0 else NOBODY
    while held >= 0:
        if entries[held].holder == hashes[at].holder:
            hashes[at].held += 1
            hashes[at].held_elsewhere -= 1
        held = entries[held].next


@compiled
def return_to_replay(state: State, out: Output, slot: int, point: TracePoint, ended_by: int) -> None:
    """Returns a pending entry; the caller makes it wait unless the cursor has deleted it meanwhile."""
    if ended_by == By.REDELIVER and state.entries[slot].marks & Mark.MAYBE_SKIPPED != 0:
        # If the broker has dropped it, the command does nothing.
        state.entries[slot].marks |= Mark.COUNT_LOST
    remove_pending(state, out, slot, point, ended_by)
    if ended_by == By.REDELIVER:
        state.entries[slot].marks |= Mark.NACKED
        state.entries[slot].redelivered += 1
    if state.entries[slot].marks & Mark.ACKED == 0 and not was_passed(
        state, state.entries[slot].ledger, state.entries[slot].entry
    ):
        state.entries[slot].marks |= Mark.RETURNED
    else:
        # Nothing at or below mark-delete is replayed (3.6).
        if state.entries[slot].marks & Mark.ACKED == 0:
            state.entries[slot].marks |= Mark.ACKED | Mark.PASSED
        free_entry(state, slot)


@compiled
def return_also(state: State, slot: int, consumer: int) -> None:
    """Notes that a consumer gives back an entry that another one was sent meanwhile: it may be sent again (F10)."""
    if state.entries[slot].also_at == consumer:
        state.entries[slot].also_at = NOBODY
        state.entries[slot].marks |= Mark.VAGUE


@compiled
def acknowledge(state: State, out: Output, slot: int, point: TracePoint, in_transaction: bool) -> None:
    """Acknowledges a whole entry: it is no longer pending, and deleted at the cursor.

    In a transaction only the commit deletes it, and an abort sends it again (5.5). No row shows either.
    """
    note_unsent(state, out, slot)
    if state.entries[slot].holder >= 0:
        remove_pending(state, out, slot, point, By.ACK)
    if not in_transaction:
        delete_at_cursor(state, slot, point.ts_us)
        return
    stop_waiting(state, slot, point.ts_us)
    state.entries[slot].words_at = UNKNOWN
    state.entries[slot].marks |= Mark.IN_TRANSACTION | Mark.SENT


@compiled
def delete_at_cursor(state: State, slot: int, ts: int) -> None:
    """Deletes an entry at the cursor: all its messages are acknowledged. A pending entry stays pending."""
    entries = state.entries
    if entries[slot].marks & (Mark.RETURNED | UNSURE) != 0 or entries[slot].marks & Mark.SENT == 0:
        entries[slot].marks |= Mark.ACKED_WHILE_QUEUED
        entries[slot].acked_ts = ts
    stop_waiting(state, slot, ts)
    entries[slot].marks |= Mark.ACKED
