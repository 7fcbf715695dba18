"""The state of one subscription: what the dispatcher core knows between two events.

Arrays of 64-bit integers in named tuples, so that the compiled functions can take them and the interpreter can show
them. Nothing here grows with the length of a trace: an entry has a slot from its publish (or first dispatch) until
mark-delete has passed it and nobody holds it; a hash has one while it is held, awaited or draining, or while an
entry that could still break its order may come (one above mark-delete).

    entry:  absent -> WAITING -> pending at a consumer -> ACKED -> absent, once mark-delete has passed it
                         ^------- given back ------|
    hash:   free -> held by one consumer -> free; held and moved away = draining, until nothing is held there
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.pair_index import Slots, empty_table

Ints = NDArray[np.int64]

NOBODY: Final = -1
UNKNOWN: Final = -1

# Marks of an entry (`Entries.marks`), bits.
WAITING: Final = 1  # published or given back, and not held
SENT: Final = 2  # dispatched at least once since the last restart
DONE: Final = 4  # its last dispatch was seen to reach the connection
ACKED: Final = 8  # deleted at the cursor
DELAYED: Final = 16  # published with a time before which it may not be delivered
DOUBTFUL: Final = 32  # held when an administrator moved mark-delete: the broker may have dropped it
GIVEN_BACK: Final = 64  # nacked, timed out, or its holder left, since its last dispatch
CITED: Final = 128  # a finding rests on its being held
LATE: Final = 256  # acknowledged while given back: a replay read in flight may still send it, legitimately

# Places in `State.cells`.
ENTRIES_FREE: Final = 0
HASHES_FREE: Final = 1
WORDS_USED: Final = 2
CONNECTED: Final = 3
LEDGERS: Final = 4
DELETED_LEDGER: Final = 5  # mark-delete as the acknowledgements show it; UNKNOWN before the first position
DELETED_ENTRY: Final = 6
FLOOR_LEDGER: Final = 7  # where mark-delete was first put: what is at or below was not seen to be acknowledged
FLOOR_ENTRY: Final = 8
RESETTING: Final = 9  # between the two sides of a seek, unload or transfer
STARTS_SEEN: Final = 10  # the recorder writes the decision of a dispatch, not only its end
CELLS: Final = 11

# Places in `State.checked`.
DISPATCHES: Final = 0
FIRST_DELIVERIES: Final = 1


class Entries(NamedTuple):
    """One slot an open entry; `next` and `previous` chain the pending ones of a hash in order of dispatch."""

    ledger: Ints
    entry: Ints
    murmur: Ints
    key_id: Ints
    hash_at: Ints
    messages: Ints
    marks: Ints
    holder: Ints
    sent_to: Ints
    sent_seq: Ints
    sent_ts: Ints
    next: Ints
    previous: Ints
    words_at: Ints  # where the ack set begins in `State.words`; UNKNOWN while no part is acknowledged
    words: Ints


class Hashes(NamedTuple):
    """One slot a sticky hash in use.

    `holder` holds `held` entries of the hash; `held_elsewhere` counts those that others hold, which a broker that
    keeps its promise never lets happen. `top_*` is the highest first delivery. A draining episode is open while
    `draining_seq` is not UNKNOWN, and `away` tells whether the hash is away from its holder at the moment.
    """

    hash: Ints
    zero: Ints  # second half of the index key, always 0
    holder: Ints
    held: Ints
    held_elsewhere: Ints
    first: Ints
    last: Ints
    top_ledger: Ints
    top_entry: Ints
    top_seq: Ints
    top_ts: Ints
    top_consumer: Ints
    top_key_id: Ints
    waiting: Ints
    waiting_messages: Ints
    draining_seq: Ints
    draining_ts: Ints
    new_owner: Ints
    away: Ints
    held_at_start: Ints
    root_ledger: Ints
    root_entry: Ints
    returned_seq: Ints
    returned_ts: Ints
    awaited: Ints  # entries that waited at some moment of the episode
    summed_to_ts: Ints
    waited_us: Ints  # message-microseconds


class Consumers(NamedTuple):
    """One row a consumer, in the order in which the trace names them first."""

    connected: Ints
    leaving: Ints  # its departure has begun: what it holds is no longer certain
    dispatched: Ints
    acked: Ints


class State(NamedTuple):
    """Everything the core knows; `ledger_ids` are the ledgers seen, ascending, `ledger_ends` their last entries."""

    entries: Entries
    entry_table: Slots
    entries_free: Ints
    hashes: Hashes
    hash_table: Slots
    hashes_free: Ints
    consumers: Consumers
    words: Ints
    ledger_ids: Ints
    ledger_ends: Ints
    cells: Ints
    checked: Ints


def new_state(entries: int, hashes: int, consumers: int, words: int, ledgers: int) -> State:
    """A subscription of which nothing is known, with room for that many of each."""
    cells = np.zeros(CELLS, dtype=np.int64)
    cells[ENTRIES_FREE] = entries
    cells[HASHES_FREE] = hashes
    cells[DELETED_LEDGER] = UNKNOWN
    return State(
        entries=Entries(*columns(len(Entries._fields), entries)),
        entry_table=empty_table(entries),
        entries_free=free_slots(entries),
        hashes=Hashes(*columns(len(Hashes._fields), hashes)),
        hash_table=empty_table(hashes),
        hashes_free=free_slots(hashes),
        consumers=Consumers(*(np.zeros(consumers, dtype=np.int64) for _ in Consumers._fields)),
        words=np.zeros(words, dtype=np.int64),
        ledger_ids=np.zeros(ledgers, dtype=np.int64),
        ledger_ends=np.zeros(ledgers, dtype=np.int64),
        cells=cells,
        checked=np.zeros(2, dtype=np.int64),
    )


def columns(count: int, rows: int) -> list[Ints]:
    """Columns of free slots."""
    # UNKNOWN in the key columns is what tells a free slot.
    return [np.full(rows, UNKNOWN, dtype=np.int64) for _ in range(count)]


def free_slots(rows: int) -> Ints:
    """A stack of the slots 0 to rows - 1."""
    # Popped from the end, so slots are handed out in ascending order.
    return np.arange(rows - 1, -1, -1, dtype=np.int64)
