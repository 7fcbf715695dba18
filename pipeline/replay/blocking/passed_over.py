"""Hashes that could be served and were passed over: their owners, or others, were sent later entries (V10, V11).

The kernel reports them; how such a hash had moved before is kept beside it.
"""

from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before
from dispatch_audit.pipeline.replay.blocking.consumer_availability import blocked_until_ts, unserved_us
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import INTERVALS, Output, new_interval
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, position_of, ran_us, set_position
from dispatch_audit.pipeline.replay.state.state import Seen, owner_of
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, Mark

# The hash could be served in the interval and was not: not a cause of waiting, but a finding.
STARVED: Final = -1


@compiled
def note_starved(state: Seen, out: Output, at: int, point: TracePoint, ended_by: int, longest_us: int) -> None:
    """Reports a hash as starved if it could have been served for `longest_us`; called when it is served or moves."""
    hashes, waits = state.hashes, state.waits.hashes
    owner = hashes[at].owner
    head = hashes[at].queue.first
    # Only entries that may not be overtaken (`queue.first`) count, and only while nobody but the owner holds others:
    # another holder may have been the owner although no row shows it, and then the hash drains.
    held_by_others = hashes[at].held_elsewhere > 0 or (hashes[at].held > 0 and hashes[at].holder != owner)
    if head < 0 or hashes[at].away == 1 or held_by_others:
        return
    from_seq, from_ts, before_us = waits[at].clear.seq, waits[at].clear.ts_us, waits[at].clear_unserved_us
    if waits[at].read.ts_us > from_ts and _may_be_unread(state, at, point.ts_us):
        from_seq, from_ts, before_us = waits[at].read.seq, waits[at].read.ts_us, waits[at].read_unserved_us
    if state.entries[head].since.ts_us > from_ts:
        # The entry came back, and precedes those that have waited longer.
        from_seq, from_ts = state.entries[head].since.seq, state.entries[head].since.ts_us
    # The hash does not starve while the broker does not read for its owner.
    unavailable = unserved_us(state, owner, point.ts_us) - before_us if owner >= 0 else 0
    if point.ts_us - from_ts - unavailable >= longest_us:
        since = TracePoint(from_seq, from_ts)
        report_starved(state, out, at, head, since, point, ended_by, unavailable)
        _note_passed_by_others(state, out, at, from_ts, unavailable, longest_us)


@compiled
def report_starved(
    state: Seen,
    out: Output,
    at: int,
    head: int,
    since: TracePoint,
    point: TracePoint,
    ended_by: int,
    unavailable: int,
) -> None:
    """Reports that an entry of the hash at `at`, and those after it, could be sent between two points and were not.

    For `unavailable` microseconds of that time the owner could be sent nothing.
    """
    hashes, owner = state.hashes, state.hashes[at].owner
    row, report = new_interval(out, STARVED, owner, hashes[at].hash, since, point, ended_by), out.intervals
    report[row].registered = hashes[at].registered
    report[row].drained_from = hashes[at].drained_from
    report[row].waiting = hashes[at].waiting
    report[row].unavailable_us = unavailable
    set_position(report[row], state.entries[head])
    report[row].passed_ts = UNKNOWN
    report[row].passed_by = owner
    report[row].blocked_until_ts = blocked_until_ts(state, owner, point.ts_us)
    if owner >= 0:
        of = state.consumers[owner]
        report[row].holds = 1 if of.unacked + of.uncounted > 0 or of.gave_up_at.ts_us > since.ts_us else 0
        report[row].passed_ledger = of.sent.ledger
        report[row].passed_entry = of.sent.entry
        report[row].passed_ts = of.sent_ts
        report[row].takes_since_ts = _takes_since_ts(state, head, owner, since.ts_us)


@compiled
def _takes_since_ts(state: Seen, head: int, owner: int, since_ts: int) -> int:
    """Since when the owner of a hash could certainly be sent something: from a time on, or its first dispatch after it.

    Without flow rows only what it is sent shows that it has permits, and of one that is recently joined as far as rows
    show, that mark-delete has released it (6.1). Entries after the head stay in the state.
    """
    entries, first_ts = state.entries, state.consumers[owner].sent_ts
    if state.common[0].permits_known_by == BY_FLOWS and state.waits.consumers[owner].recent == 0:
        return since_ts
    for slot in range(entries.size):
        sent_ts = entries[slot].sent_at.ts_us
        to_owner = entries[slot].ledger >= 0 and entries[slot].sent_to == owner
        later = to_owner and position_of(entries[slot]) > position_of(entries[head])
        if later and since_ts <= sent_ts < first_ts:
            first_ts = sent_ts
    return int(first_ts)


@compiled
def _note_passed_by_others(state: Seen, out: Output, at: int, from_ts: int, unavailable: int, longest_us: int) -> None:
    """Adds to the report of a starved hash the later entry that another consumer was sent, if its owner was sent none.

    A broker that sends later entries to others has read the first entry of the hash, and looks at it at each read. It
    may pass over it while its owner has no permits; only flow rows show that it has some all the time. While its owner
    is sent anything, its turn may not have come.
    """
    entries, common, head = state.entries, state.common, state.hashes[at].queue.first
    owner = state.hashes[at].owner
    if owner < 0 or common[0].permits_known_by != BY_FLOWS or entries[head].marks & Mark.READ == 0:
        return
    passed_from = max(from_ts, entries[head].read_ts, state.consumers[owner].sent_ts) + unavailable + longest_us
    if common[0].last_dispatch.ts_us < passed_from:
        return
    latest = NOBODY
    for slot in range(entries.size):
        sent = entries[slot].marks & Mark.SENT != 0
        if entries[slot].ledger < 0 or not sent or entries[slot].sent_at.ts_us < passed_from:
            continue
        later = position_of(entries[slot]) > position_of(entries[head])
        if later and (latest == NOBODY or entries[slot].sent_at.ts_us > entries[latest].sent_at.ts_us):
            latest = slot
    if latest != NOBODY:
        row = out.filled[INTERVALS] - 1
        report = out.intervals
        report[row].passed_ledger = entries[latest].ledger
        report[row].passed_entry = entries[latest].entry
        report[row].passed_ts = entries[latest].sent_at.ts_us
        report[row].passed_by = entries[latest].sent_to


@compiled
def _may_be_unread(state: Seen, at: int, ts: int) -> bool:
    """Whether the broker had reason not to read the first entry of a hash at once (V10).

    It reads in order, and nothing while the look-ahead limit or that of unacknowledged messages is reached (4.2).
    """
    waits = state.waits.hashes
    limited_us = ran_us(state.waits.common[0].look_ahead, ts) - waits[at].clear_look_ahead_us
    limited_us += ran_us(state.waits.common[0].blocked_on_unacked, ts) - waits[at].clear_full_us
    return bool(limited_us > 0 or state.entries[state.hashes[at].queue.first].marks & Mark.IN_BACKLOG != 0)


# The number of moves of one hash that are remembered.
_MOVES_MAX: Final = 16


@compiled
def moves_in_use(state: Seen, before: Routing, in_use: Ints, moved: Ints) -> tuple[int, int]:
    """Fills in the hashes with pending or waiting entries, and those of them that move from one owner to another.

    Args:
        state: with n hashes, and the routing that has begun.
        before: the routing that has ended.
        in_use: (n) gets the hashes in use.
        moved: (4, n) gets those that move, the indexes of the owners before and after, and how many entries of each are
            pending at the holder.

    Returns:
        How many are in use, and how many move.
    """
    hashes, used, moves = state.hashes, 0, 0
    for at in range(hashes.size):
        if hashes[at].hash == UNKNOWN or (hashes[at].held == 0 and hashes[at].waiting == 0):
            continue
        in_use[used] = hashes[at].hash
        used += 1
        old, new = owner_of(before, hashes[at].hash), owner_of(state.routing, hashes[at].hash)
        if old not in (new, NOBODY):
            moved[0, moves], moved[1, moves] = hashes[at].hash, old
            moved[2, moves], moved[3, moves] = new, hashes[at].held
            moves += 1
    return used, moves


_moves_in_use = EntryPoint(moves_in_use)


@checkpointed("ownership_move")
class OwnershipMove(NamedTuple):
    """A move of a hash from one owner to another, both by their indexes; `held` of its entries were pending."""

    at: TracePoint
    before: int
    after: int
    held: int


@checkpointed("ownership_moves")
class OwnershipMoves:
    """The last moves of each hash that has pending or waiting entries."""

    __slots__ = ("_of_hash",)

    def __init__(self) -> None:
        self._of_hash: dict[int, deque[OwnershipMove]] = {}

    def note(self, state: Seen, before: Routing, at: TracePoint) -> None:
        """Takes the moves when another routing has come into force; forgets those of hashes that are not in use."""
        in_use = np.empty(len(state.hashes), dtype=np.int64)
        moved = np.empty((4, in_use.size), dtype=np.int64)
        used, moves_now = _moves_in_use(state, before, in_use, moved)
        for gone in self._of_hash.keys() - set(in_use[:used].tolist()):
            del self._of_hash[gone]
        # Plain numbers: reading array elements one by one takes several times as long.
        for sticky_hash, old, new, held in zip(*moved[:, :moves_now].tolist(), strict=True):
            moves = self._of_hash.get(sticky_hash)
            if moves is None:
                moves = self._of_hash[sticky_hash] = deque(maxlen=_MOVES_MAX)
            moves.append(OwnershipMove(at, old, new, held))

    def of(self, sticky_hash: int) -> tuple[OwnershipMove, ...]:
        """The moves of a hash, in order."""
        return tuple(self._of_hash.get(sticky_hash, ()))


def unserved_since_drained(state: Seen, waiting: Waiters) -> NDArray[np.bool_]:
    """Which entries have a hash that had drained, and no pending entry of it at the owner."""
    hashes: Any = state.hashes.view(np.ndarray)
    held, holder, drained_from = (hashes[name][waiting.hash_at] for name in ("held", "holder", "drained_from"))
    unserved: NDArray[np.bool_] = (drained_from != NOBODY) & ~((held > 0) & (holder == waiting.owner))
    return unserved


def are_found(state: Seen, waiting: Waiters, longest_us: int, sent: tuple[int, int] | None) -> bool:
    """Whether each hash of some entries that could be sent starves: its owner was sent a later one `longest_us` after.

    `sent` is the entry whose dispatch ends the time in which they could be sent; None: something else ends it.
    """
    entries: Any = state.entries.view(np.ndarray)
    owners, waits = state.consumers.view(np.ndarray)[waiting.owner], state.waits.hashes.view(np.ndarray)
    first = entries[waiting.slot]
    passed = (owners["sent"]["ledger"] > first["ledger"]) | (
        (owners["sent"]["ledger"] == first["ledger"]) & (owners["sent"]["entry"] > first["entry"])
    )
    since_us = np.maximum(waits["clear"]["ts_us"][waiting.hash_at], waiting.since_ts)
    unserved_us = state.waits.consumers.view(np.ndarray)["unserved"]["total_us"][waiting.owner]
    unserved_us = unserved_us - waits["clear_unserved_us"][waiting.hash_at]
    found = passed & (owners["sent_ts"] - since_us - unserved_us >= longest_us)
    if sent is not None:
        hash_at = entries["hash_at"][(entries["ledger"] == sent[0]) & (entries["entry"] == sent[1])]
        to = state.hashes.view(np.ndarray)["owner"][hash_at]
        found |= np.isin(waiting.owner, to) & are_before(state, waiting.slot, sent)
    return bool(np.isin(waiting.hash, waiting.hash[found]).all())
