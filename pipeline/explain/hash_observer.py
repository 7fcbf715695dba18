"""Looks at one hash between the rows of a replay.

The state of a hash in a story is not computed a second time from rows or tables: it is the state of the kernel once
all rows up to one are replayed, in the order and under the routing of the audit. Looking changes nothing, because the
dispatcher may be given its rows in stretches of any length (`tests/explain/test_hash_observer.py`).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import Seen
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges


class SeenHash(NamedTuple):
    """The state of a hash after a row; consumers by the replay's numbers, None for nobody.

    Attributes:
        owner: the consumer that the routing in force sends its entries to.
        undecided: why another consumer may own it; empty: no other may.
        held: the pending entries by consumer.
        drains_from: the holder that another owner has to wait for (PIP-379).
        drains_to: the consumer that the hash moved to.
        waiting: entries that wait to be sent.
        in_replay: those of them that the broker has read.
    """

    owner: int | None
    undecided: str
    held: Mapping[int, int]
    drains_from: int | None
    drains_to: int | None
    waiting: int
    in_replay: int


class HashObserver:
    """An `Observer` of one hash.

    Attributes:
        seen: the state of the hash after each of the places that were asked for, once the replay has passed them.
    """

    def __init__(self, sticky_hash: int, places: Iterable[int]) -> None:
        """Takes the hash, and the seqs in the order of the topic after which it is looked at."""
        self.seen: dict[int, SeenHash] = {}
        self._hash = sticky_hash
        self._places = deque(sorted(set(places)))

    def replay(self, dispatcher: Dispatcher, events: Events, hashes: Ints, consumers: Ints) -> list[ContradictedLimit]:
        """Replays rows, and looks at the hash once the first row after each of the places is there.

        Changes that take effect directly after a row have been applied by then.
        """
        contradicted: list[ContradictedLimit] = []
        start = 0
        for stop in self._cuts(events.seq):
            if stop > start:
                contradicted += dispatcher.replay(events.rows(start, stop), hashes[start:stop], consumers[start:stop])
            if stop < events.seq.size:
                self._look(dispatcher, int(events.seq[stop]))
            start = stop
        return contradicted

    def finish(self, dispatcher: Dispatcher, doubts: UndecidedRanges) -> None:
        """Looks at what is left, and notes which owners are open: later rows may have decided them."""
        self._look(dispatcher, None)
        for place, seen in self.seen.items():
            if doubt := doubts.about(self._hash, place):
                self.seen[place] = seen._replace(undecided=doubt.because)

    def _cuts(self, seqs: Ints) -> list[int]:
        """The indexes of rows to stop in front of, and the number of rows."""
        within = [place for place in self._places if seqs.size and place < seqs[-1]]
        return [*sorted(set(np.searchsorted(seqs, within, side="right").tolist())), seqs.size]

    def _look(self, dispatcher: Dispatcher, before: int | None) -> None:
        state = None
        while self._places and (before is None or self._places[0] < before):
            state = state or self._state(dispatcher)
            self.seen[self._places.popleft()] = state

    def _state(self, dispatcher: Dispatcher) -> SeenHash:
        found = hash_state(dispatcher.seen, self._hash)
        numbers = dispatcher.consumers.numbers

        def number(index: int) -> int | None:
            return None if index == NOBODY else numbers[index]

        return SeenHash(
            owner=number(found.owner),
            undecided="",
            held={numbers[index]: entries for index, entries in found.held.items()},
            drains_from=number(found.drains_from),
            drains_to=number(found.drains_to),
            waiting=found.waiting,
            in_replay=found.in_replay,
        )


class HashState(NamedTuple):
    """One hash at one moment; consumers are indexes into the state, NOBODY for none."""

    owner: int  # the consumer to which the routing in force sends its entries
    held: Mapping[int, int]  # the number of pending entries by consumer, the first dispatch first
    drains_from: int  # the holder, while another consumer owns the hash and has to wait for it (PIP-379)
    drains_to: int  # the consumer to which the hash moved
    waiting: int  # the number of entries that wait to be sent
    in_replay: int  # the number of these that the broker has read, so that they wait in replay


def hash_state(state: Seen, sticky_hash: int) -> HashState:
    """The state of a hash at this moment; a hash without entries has only an owner."""
    owner = int(state.routing.owners_of([sticky_hash])[0])
    hashes: Any = state.hashes
    entries: Any = state.entries
    slots = np.flatnonzero(hashes.hash == sticky_hash)
    if not slots.size:
        return HashState(owner, {}, NOBODY, NOBODY, 0, 0)
    slot = int(slots[0])
    of_hash = (entries.ledger != UNKNOWN) & (entries.hash_at == slot)
    pending = np.flatnonzero(of_hash & (entries.holder >= 0))
    held: dict[int, int] = {}
    for holder in entries.holder[pending[np.argsort(entries.sent_at.seq[pending], kind="stable")]].tolist():
        held[holder] = held.get(holder, 0) + 1
    waiting = of_hash & (entries.holder < 0) & (entries.marks & Mark.WAITING != 0)
    drains = hashes.episode.from_seq[slot] != UNKNOWN and hashes.away[slot] == 1
    return HashState(
        owner,
        held,
        int(hashes.holder[slot]) if drains else NOBODY,
        int(hashes.episode.new_owner[slot]) if drains else NOBODY,
        int(np.count_nonzero(waiting)),
        int(np.count_nonzero(waiting & (entries.marks & Mark.READ != 0))),
    )
