"""The points of a consumer on the ring of consistent hashing, by its name and its index among consumers of that name.

Source: contract 2.1 and 2.2; Pulsar's `ConsumerNameIndexTracker`, `ConsistentHashingStickyKeyConsumerSelector`.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import RingPointText
from dispatch_audit.udfs.sticky_key_hash import Int64Array, sticky_hashes

_TEXTS: Mapping[RingPointText, str] = {
    "name_i": "{name}{point}",
    "name_nul_i": "{name}\0{point}",
    "name_nul_index_nul_i": "{name}\0{index}\0{point}",
}
# The largest number of consumers with one name that is searched for in a report.
_NAMESAKES_MAX = 1_000
# How many more of a name than the trace shows may have joined: before it began, or in a gap.
_UNSEEN_MAX = 16


@checkpointed("name_indexes")
class NameIndexes:
    """Numbers the consumers that share a name, so that they have different points.

    The lowest free index is used first, so a client that reconnects usually gets its old points.
    """

    __slots__ = ("_given", "_taken")

    def __init__(self) -> None:
        # Tuples, which copies share.
        self._taken: dict[str, tuple[int, ...]] = {}
        self._given: dict[str, int] = {}

    def take(self, name: str) -> int:
        """Takes the lowest index of `name` that is free."""
        taken = self._taken.get(name, ())
        index = 0
        while index in taken:
            index += 1
        self._taken[name] = (*taken, index)
        self._given[name] = self._given.get(name, 0) + 1
        return index

    def possible(self, name: str) -> range:
        """The indexes that a consumer of `name` can have, in any order of joins and leaves; the likelier ones first."""
        return range(min(self._given.get(name, 0) + _UNSEEN_MAX, _NAMESAKES_MAX))

    def copy(self) -> "NameIndexes":
        """A copy that shares nothing that changes."""
        twin = NameIndexes()
        twin._taken, twin._given = dict(self._taken), dict(self._given)
        return twin

    def put(self, name: str, index: int) -> None:
        """Notes an index that a report shows to be taken."""
        taken = self._taken.get(name, ())
        if index not in taken:
            self._taken[name] = (*taken, index)
        self._given[name] = max(self._given.get(name, 0), index + 1)

    def release_all(self) -> None:
        """Frees every index, but keeps how many were ever taken."""
        self._taken.clear()

    def release(self, name: str, index: int) -> None:
        """Frees an index that `take` returned."""
        left = tuple(taken for taken in self._taken[name] if taken != index)
        if left:
            self._taken[name] = left
        else:
            del self._taken[name]


# Cached, because a client that reconnects, and its name on other partitions, have the same points.
@lru_cache(maxsize=4096)
def ring_points(
    name: str, index: int, points: int, hash_rule: str, text: RingPointText = "name_nul_index_nul_i"
) -> Int64Array:
    """The points of one consumer on the ring.

    Args:
        name: consumer name.
        index: its index among the consumers of that name, if the text has it.
        points: how many points it has (`subscriptionKeySharedConsistentHashingReplicaPoints`).
        hash_rule: the rule by which a point's text is hashed; the same as for keys.
        text: what is hashed.

    Returns:
        The distinct points, ascending: at most `points`, as two texts may hash alike.
    """
    texts = (_TEXTS[text].format(name=name, index=index, point=point) for point in range(points))
    distinct: Int64Array = np.unique(sticky_hashes([of_point.encode() for of_point in texts], hash_rule))
    distinct.flags.writeable = False
    return distinct
