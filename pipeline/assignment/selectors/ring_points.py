"""Where a consumer stands on the ring of consistent hashing: its name, its index among namesakes, its points.

Source: contract 2.1; Pulsar's `ConsumerNameIndexTracker`, `ConsistentHashingStickyKeyConsumerSelector`.
"""

from collections import Counter
from functools import lru_cache
from itertools import count

import numpy as np

from dispatch_audit.udfs.sticky_key_hash import Int64Array, sticky_hashes

_SEPARATOR = "\0"
# So many consumers of one name at one time are looked for in a report.
_NAMESAKES_MAX = 1_000


class NameIndexes:
    """Numbers the consumers that share a name, so that namesakes stand on different points.

    A freed index is the next one given out: who comes back usually finds his old points.
    """

    def __init__(self) -> None:
        self._taken: dict[str, set[int]] = {}
        self._given: Counter[str] = Counter()

    def take(self, name: str) -> int:
        """Takes the lowest index of `name` that is free."""
        taken = self._taken.setdefault(name, set())
        index = next(candidate for candidate in count() if candidate not in taken)
        taken.add(index)
        self._given[name] += 1
        return index

    def possible(self, name: str) -> range:
        """The indexes that a consumer of `name` can have, whatever the order in which all of them came and went."""
        return range(min(self._given[name], _NAMESAKES_MAX))

    def copy(self) -> "NameIndexes":
        """A copy that shares nothing that changes."""
        twin = NameIndexes()
        twin._taken = {name: set(taken) for name, taken in self._taken.items()}
        twin._given = self._given.copy()
        return twin

    def put(self, name: str, index: int) -> None:
        """Notes an index that a report shows to be taken."""
        self._taken.setdefault(name, set()).add(index)
        self._given[name] = max(self._given[name], index + 1)

    def release_all(self) -> None:
        """Frees every index; what has been given out before is still remembered."""
        self._taken.clear()

    def release(self, name: str, index: int) -> None:
        """Gives back an index that `take` gave out."""
        taken = self._taken[name]
        taken.remove(index)
        if not taken:
            del self._taken[name]


# A client that comes back stands where it stood, and so does its name on other partitions.
@lru_cache(maxsize=4096)
def ring_points(name: str, index: int, points: int, hash_rule: str) -> Int64Array:
    """The places of one consumer on the ring.

    Args:
        name: consumer name.
        index: its index among the consumers of that name.
        points: how many points it has (`subscriptionKeySharedConsistentHashingReplicaPoints`).
        hash_rule: how a point's text is hashed; the same as for keys.

    Returns:
        The distinct points, ascending: at most `points`, as two texts may hash alike.
    """
    texts = (_SEPARATOR.join((name, str(index), str(point))) for point in range(points))
    distinct: Int64Array = np.unique(sticky_hashes([text.encode() for text in texts], hash_rule))
    distinct.flags.writeable = False
    return distinct
