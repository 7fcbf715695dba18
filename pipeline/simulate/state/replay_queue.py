"""The replay queue: entries for (re)delivery, sorted, some with their hash (contract 4.12).

The broker walks the whole queue at each read (4.3). With thousands of entries for a consumer without permits that
costs a broker milliseconds and would cost a simulation all of its time, so the entries are kept by hash and the hashes
by owner: what has no permits is passed in one step, and the result is the same.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final

NO_HASH: Final = -1
"""In place of the hash of an entry that was added without one."""


class HashQueue:
    """The entries of one hash, ascending. Taking the first costs the same however many there are."""

    __slots__ = ("_head", "_items", "hash")

    def __init__(self, sticky_hash: int) -> None:
        self.hash = sticky_hash
        self._items: list[int] = []
        self._head = 0

    def __len__(self) -> int:
        return len(self._items) - self._head

    def __iter__(self) -> Iterator[int]:
        """The entries, ascending."""
        items = self._items
        return (items[at] for at in range(self._head, len(items)))

    @property
    def first(self) -> int:
        """The lowest entry; there must be one."""
        return self._items[self._head]

    def get(self, number: int) -> int | None:
        """The entry with this number from the lowest on, which has 0."""
        at = self._head + number
        return self._items[at] if at < len(self._items) else None

    def up_to(self, position: int) -> list[int]:
        """The entries that are not after a position, ascending."""
        items = self._items
        return items[self._head : bisect_right(items, position, lo=self._head)]

    def add(self, position: int) -> None:
        """Adds an entry that is not in it."""
        items = self._items
        if not items or position > items[-1]:
            items.append(position)
        else:
            insort(items, position, lo=self._head)

    def remove(self, position: int) -> None:
        """Removes an entry that is in it."""
        items, head = self._items, self._head
        if items[head] == position:
            self._head = head = head + 1
            if head > 64 and head * 2 > len(items):
                del items[:head]
                self._head = 0
        else:
            del items[bisect_left(items, position, lo=head)]


class ReplayQueue:
    """Entries for replay.

    Attributes:
        hash_of: the entries, each with its hash or `NO_HASH`.
        by_hash: the entries of each hash; an entry without one is in none of them.
        by_owner: the same queues, by the consumer that owns the hash now.
        bare: the entries without a hash, ascending.
        size_peak: the most entries at one time.
        added: entries added since a replay read began, in versions that guard against them; None: not noted.
    """

    __slots__ = ("_front", "_heap", "_owner_of", "added", "bare", "by_hash", "by_owner", "hash_of", "size_peak")

    def __init__(self, owner_of: Callable[[int], int]) -> None:
        """An empty queue.

        Args:
            owner_of: the consumer that owns a hash; call `regroup` when that changes.
        """
        self._owner_of = owner_of
        self.hash_of: dict[int, int] = {}
        self.by_hash: dict[int, HashQueue] = {}
        self.by_owner: dict[int, dict[int, HashQueue]] = {}
        self.bare: list[int] = []
        self.size_peak = 0
        self.added: set[int] | None = None
        # Each entry is in one of these, and perhaps some that were removed since. The front is ascending, and nothing
        # in the heap is lower than what it has: 3.x asks for the lowest entries at each read.
        self._front: list[int] = []
        self._heap: list[int] = []

    def __len__(self) -> int:
        return len(self.hash_of)

    @property
    def first(self) -> int | None:
        """The lowest entry."""
        inside = self.hash_of
        for position in self._front:
            if position in inside:
                return position
        heap = self._heap
        while heap and heap[0] not in inside:
            heappop(heap)
        return heap[0] if heap else None

    def lowest(self, entries_max: int) -> list[int]:
        """The lowest entries, ascending."""
        heap, inside = self._heap, self.hash_of
        self._front = front = [position for position in self._front if position in inside]
        while heap and len(front) < entries_max:
            position = heappop(heap)
            # An entry that was removed and added again is in the heap twice.
            if position in inside and (not front or front[-1] != position):
                front.append(position)
        return front[:entries_max]

    def add(self, position: int, sticky_hash: int = NO_HASH) -> None:
        """Adds an entry; one that is in it gets a hash if it had none, and never loses its hash."""
        known = self.hash_of.get(position)
        if known is None:
            self._note(position)
            if self.added is not None:
                self.added.add(position)
        elif sticky_hash in {known, NO_HASH}:
            return
        else:
            self._drop(position, known)
        self.hash_of[position] = sticky_hash
        if sticky_hash == NO_HASH:
            insort(self.bare, position)
        else:
            self._queue_of(sticky_hash).add(position)
        self.size_peak = max(self.size_peak, len(self.hash_of))

    def remove(self, position: int) -> None:
        """Removes an entry if it is in it."""
        known = self.hash_of.pop(position, None)
        if known is not None:
            self._drop(position, known)

    def remove_up_to(self, mark_delete: int) -> None:
        """Removes what mark-delete has passed."""
        while (first := self.first) is not None and first <= mark_delete:
            self.remove(first)

    def clear(self) -> None:
        """Removes everything."""
        self.hash_of.clear()
        self.by_hash.clear()
        self.by_owner.clear()
        self.bare.clear()
        self._front.clear()
        self._heap.clear()

    def regroup(self) -> None:
        """Groups the hashes by their owners after a membership change."""
        self.by_owner.clear()
        for sticky_hash, queue in self.by_hash.items():
            self.by_owner.setdefault(self._owner_of(sticky_hash), {})[sticky_hash] = queue

    def _note(self, position: int) -> None:
        front = self._front
        if not front or position > front[-1]:
            heappush(self._heap, position)
            return
        at = bisect_left(front, position)
        if front[at] != position:
            front.insert(at, position)

    def _queue_of(self, sticky_hash: int) -> HashQueue:
        queue = self.by_hash.get(sticky_hash)
        if queue is None:
            self.by_hash[sticky_hash] = queue = HashQueue(sticky_hash)
            self.by_owner.setdefault(self._owner_of(sticky_hash), {})[sticky_hash] = queue
        return queue

    def _drop(self, position: int, known: int) -> None:
        if known == NO_HASH:
            del self.bare[bisect_left(self.bare, position)]
            return
        queue = self.by_hash[known]
        queue.remove(position)
        if not queue:
            del self.by_hash[known]
            owner = self._owner_of(known)
            of_owner = self.by_owner[owner]
            del of_owner[known]
            if not of_owner:
                del self.by_owner[owner]
