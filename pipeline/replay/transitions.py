"""Every transition of an entry, in one place (SEMANTICS 5.9 has the broker's own list).

    publish   absent           -> WAITING
    dispatch  any              -> pending: `hold`
    ack       pending, WAITING -> ACKED: `acknowledge`
    redeliver pending          -> WAITING, GIVEN_BACK: `give_back`
    leave     pending          -> WAITING, GIVEN_BACK
    MD passes ACKED            -> absent: `retire`

An event that the state does not allow leaves it as it was.
"""

from pipeline.replay.compiled import compiled
from pipeline.replay.draining import count_waiting, end_episode
from pipeline.replay.output import BY_ACK, UNSENT, WITHDRAWN, Output
from pipeline.replay.pair_index import drop, find, put
from pipeline.replay.state import (
    ACKED,
    CITED,
    DELETED_ENTRY,
    DELETED_LEDGER,
    DONE,
    DOUBTFUL,
    ENTRIES_FREE,
    GIVEN_BACK,
    HASHES_FREE,
    LATE,
    NOBODY,
    SENT,
    STARTS_SEEN,
    UNKNOWN,
    WAITING,
    State,
)


@compiled
def entry_at(state: State, ledger: int, entry: int) -> int:
    """The slot of an entry, or -1."""
    return find(state.entry_table, state.entries.ledger, state.entries.entry, ledger, entry)


@compiled
def add_entry(state: State, ledger: int, entry: int) -> int:
    """A slot for an entry that has none."""
    entries, cells = state.entries, state.cells
    cells[ENTRIES_FREE] -= 1
    slot = int(state.entries_free[cells[ENTRIES_FREE]])
    entries.ledger[slot] = ledger
    entries.entry[slot] = entry
    entries.hash_at[slot] = UNKNOWN
    entries.messages[slot] = 1
    entries.marks[slot] = 0
    entries.holder[slot] = NOBODY
    entries.sent_to[slot] = NOBODY
    entries.sent_seq[slot] = UNKNOWN
    entries.words_at[slot] = UNKNOWN
    put(state.entry_table, ledger, entry, slot)
    return slot


@compiled
def retire(state: State, slot: int) -> None:
    """Frees the slot of an entry that is acknowledged, passed by mark-delete and held by nobody."""
    entries, cells = state.entries, state.cells
    marks = entries.marks[slot]
    if marks & ACKED == 0 or marks & LATE != 0 or entries.holder[slot] >= 0:
        return
    ledger, entry = entries.ledger[slot], entries.entry[slot]
    if (ledger, entry) > (cells[DELETED_LEDGER], cells[DELETED_ENTRY]):
        return
    drop(state.entry_table, entries.ledger, entries.entry, ledger, entry)
    entries.ledger[slot] = UNKNOWN
    state.entries_free[cells[ENTRIES_FREE]] = slot
    cells[ENTRIES_FREE] += 1


@compiled
def set_key(state: State, slot: int, murmur: int, key_id: int, sticky_hash: int) -> None:
    """Ties an entry to its hash, once: it is constant for the life of a dispatcher (1.4)."""
    entries, hashes, cells = state.entries, state.hashes, state.cells
    if entries.hash_at[slot] != UNKNOWN or sticky_hash < 0:
        return
    at = find(state.hash_table, hashes.hash, hashes.zero, sticky_hash, 0)
    if at < 0:
        cells[HASHES_FREE] -= 1
        at = int(state.hashes_free[cells[HASHES_FREE]])
        hashes.hash[at] = sticky_hash
        hashes.zero[at] = 0
        hashes.holder[at] = NOBODY
        hashes.held[at] = 0
        hashes.held_elsewhere[at] = 0
        hashes.first[at] = NOBODY
        hashes.last[at] = NOBODY
        hashes.top_ledger[at] = UNKNOWN
        hashes.waiting[at] = 0
        hashes.waiting_messages[at] = 0
        hashes.draining_seq[at] = UNKNOWN
        hashes.away[at] = 0
        put(state.hash_table, sticky_hash, 0, at)
    entries.hash_at[slot] = at
    entries.murmur[slot] = murmur
    entries.key_id[slot] = key_id


@compiled
def wait(state: State, slot: int, ts: int) -> None:
    """The entry waits to be sent."""
    entries, hashes = state.entries, state.hashes
    at = entries.hash_at[slot]
    if entries.marks[slot] & WAITING != 0 or at < 0:
        return
    count_waiting(hashes, at, ts)
    entries.marks[slot] |= WAITING
    hashes.waiting[at] += 1
    hashes.waiting_messages[at] += entries.messages[slot]
    hashes.awaited[at] += hashes.away[at]


@compiled
def stop_waiting(state: State, slot: int, ts: int) -> None:
    """The entry is sent, acknowledged or gone."""
    entries, hashes = state.entries, state.hashes
    if entries.marks[slot] & WAITING == 0:
        return
    at = entries.hash_at[slot]
    count_waiting(hashes, at, ts)
    entries.marks[slot] &= ~WAITING
    hashes.waiting[at] -= 1
    hashes.waiting_messages[at] -= entries.messages[slot]


@compiled
def hold(state: State, slot: int, consumer: int, seq: int, ts: int) -> None:
    """The entry becomes pending at `consumer`; it is pending nowhere when this is called."""
    entries, hashes = state.entries, state.hashes
    stop_waiting(state, slot, ts)
    at = entries.hash_at[slot]
    entries.holder[slot] = consumer
    entries.sent_to[slot] = consumer
    entries.sent_seq[slot] = seq
    entries.sent_ts[slot] = ts
    entries.marks[slot] = (entries.marks[slot] | SENT) & ~(DONE | DOUBTFUL | GIVEN_BACK | LATE | CITED)
    last = hashes.last[at]
    entries.previous[slot] = last
    entries.next[slot] = NOBODY
    if last >= 0:
        entries.next[last] = slot
    else:
        hashes.first[at] = slot
    hashes.last[at] = slot
    if hashes.held[at] == 0:
        hashes.holder[at] = consumer
    if hashes.holder[at] == consumer:
        hashes.held[at] += 1
    else:
        hashes.held_elsewhere[at] += 1


@compiled
def release(state: State, out: Output, slot: int, seq: int, ts: int, ended_by: int) -> None:
    """The entry is pending no more; the last one that the holder gives up ends the draining of its hash."""
    entries, hashes = state.entries, state.hashes
    at = entries.hash_at[slot]
    previous, following = entries.previous[slot], entries.next[slot]
    if previous >= 0:
        entries.next[previous] = following
    else:
        hashes.first[at] = following
    if following >= 0:
        entries.previous[following] = previous
    else:
        hashes.last[at] = previous
    holder = entries.holder[slot]
    entries.holder[slot] = NOBODY
    if holder != hashes.holder[at]:
        hashes.held_elsewhere[at] -= 1
        return
    hashes.held[at] -= 1
    if hashes.held[at] > 0:
        return
    if hashes.draining_seq[at] != UNKNOWN:
        end_episode(state, out, at, seq, ts, ended_by)
    _elect_holder(state, at)


@compiled
def _elect_holder(state: State, at: int) -> None:
    # Only where the promise is broken is anybody left: whoever was sent the oldest of the pending entries.
    entries, hashes = state.entries, state.hashes
    slot = hashes.first[at]
    hashes.holder[at] = entries.holder[slot] if slot >= 0 else NOBODY
    while slot >= 0:
        if entries.holder[slot] == hashes.holder[at]:
            hashes.held[at] += 1
            hashes.held_elsewhere[at] -= 1
        slot = entries.next[slot]


@compiled
def note_unsent(state: State, out: Output, slot: int) -> None:
    """Called before a dispatch is forgotten: one whose end was never seen may not have left the broker."""
    entries = state.entries
    if (
        state.cells[STARTS_SEEN] == 1
        and entries.sent_seq[slot] != UNKNOWN
        and entries.marks[slot] & DONE == 0
    ):
        out.unsent[out.filled[UNSENT]] = entries.sent_seq[slot]
        out.filled[UNSENT] += 1


@compiled
def withdraw(state: State, out: Output, slot: int, since_us: int) -> None:
    """The entry may be settled since `since_us`; findings from then on that rest on its hold are dropped."""
    entries = state.entries
    if entries.marks[slot] & CITED != 0 and entries.holder[slot] >= 0:
        row = out.filled[WITHDRAWN]
        out.withdrawn_seq[row] = entries.sent_seq[slot]
        out.withdrawn_ts[row] = since_us
        out.filled[WITHDRAWN] = row + 1


@compiled
def give_back(state: State, out: Output, slot: int, seq: int, ts: int, ended_by: int) -> None:
    """What was pending waits again: nacked, timed out, or its holder left."""
    release(state, out, slot, seq, ts, ended_by)
    if state.entries.marks[slot] & ACKED == 0:
        state.entries.marks[slot] |= GIVEN_BACK
        wait(state, slot, ts)
    else:
        retire(state, slot)


@compiled
def acknowledge(state: State, out: Output, slot: int, seq: int, ts: int) -> None:
    """The whole entry is acknowledged: deleted at the cursor, pending nowhere."""
    entries = state.entries
    if entries.holder[slot] >= 0:
        release(state, out, slot, seq, ts, BY_ACK)
    elif entries.marks[slot] & GIVEN_BACK != 0:
        entries.marks[slot] |= LATE
        entries.sent_ts[slot] = ts
    stop_waiting(state, slot, ts)
    entries.marks[slot] |= ACKED
