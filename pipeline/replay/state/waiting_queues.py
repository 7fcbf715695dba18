"""The waiting entries of a hash by position, the order in which the dispatcher sends them (contract 4.11, 4.12).

A hash has two queues: entries that later ones must not overtake, and entries that they may overtake (`OVERTAKABLE`):
nacked or timed out (E1), delayed (E2), or perhaps dropped for an administrator (E6). Most entries are added at the end
and removed at the front. The others are added next to each other, so the search begins at the entry added last.
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import NOBODY, position_of
from dispatch_audit.pipeline.replay.state.state import Seen, State
from dispatch_audit.pipeline.replay.state.values import Mark, is_tracked


@compiled
def enqueue(state: State, slot: int) -> None:
    """Adds a waiting entry, whose hash is known, to the queue that its marks determine."""
    entries, hashes = state.entries, state.hashes
    at = entries[slot].hash_at
    aside = entries[slot].marks & (Mark.NACKED | Mark.DELAYED | Mark.MAYBE_SKIPPED) != 0
    queue = hashes[at].aside if aside else hashes[at].queue
    first, last = queue.first, queue.last
    entries[slot].marks = entries[slot].marks | Mark.OVERTAKABLE if aside else entries[slot].marks & ~Mark.OVERTAKABLE
    position = position_of(entries[slot])
    previous, following = last, NOBODY
    if last >= 0 and position < position_of(entries[last]):
        near = hashes[at].near
        # The entry added last may be in the other queue.
        if near >= 0 and (entries[near].marks & Mark.OVERTAKABLE != 0) == aside:
            previous = near
        while previous >= 0 and position < position_of(entries[previous]):
            previous = entries[previous].previous
        following = entries[previous].next if previous >= 0 else first
        while following >= 0 and position_of(entries[following]) < position:
            previous, following = following, entries[following].next
    entries[slot].previous = previous
    entries[slot].next = following
    if following >= 0:
        entries[following].previous = slot
    if previous >= 0:
        entries[previous].next = slot
    queue.first = slot if previous < 0 else first
    queue.last = slot if following < 0 else last
    hashes[at].near = slot
    if entries[slot].marks & Mark.READ != 0 and not is_tracked(entries[slot].marks):
        state.common[0].in_replay += 1


@compiled
def dequeue(state: State, slot: int) -> None:
    """Removes an entry from its queue."""
    entries, hashes = state.entries, state.hashes
    at = entries[slot].hash_at
    previous, following = entries[slot].previous, entries[slot].next
    queue = hashes[at].aside if entries[slot].marks & Mark.OVERTAKABLE != 0 else hashes[at].queue
    if previous >= 0:
        entries[previous].next = following
    else:
        queue.first = following
    if following >= 0:
        entries[following].previous = previous
    else:
        queue.last = previous
    if hashes[at].near == slot:
        hashes[at].near = previous if previous >= 0 else following
    entries[slot].marks &= ~Mark.OVERTAKABLE
    if entries[slot].marks & Mark.READ != 0 and not is_tracked(entries[slot].marks):
        state.common[0].in_replay -= 1


@compiled
def older_waiting(state: Seen, slot: int, aside: bool) -> int:
    """A waiting entry of the same hash with a lower position, if possible one of the same key; -1: none."""
    entries, hashes = state.entries, state.hashes
    at = entries[slot].hash_at
    first = hashes[at].aside.first if aside else hashes[at].queue.first
    position = position_of(entries[slot])
    walk = first
    while walk >= 0 and position_of(entries[walk]) < position:
        if entries[walk].key_id == entries[slot].key_id:
            return int(walk)
        walk = entries[walk].next
    if first >= 0 and position_of(entries[first]) < position:
        return int(first)
    return NOBODY
