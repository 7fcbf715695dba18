"""The number of ring points of a consumer, as dispatches show it where no snapshot has ranges (contract 2.1)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.packing.events import Code
from dispatch_audit.pipeline.replay.packing.packed_batch import Merged
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.udfs.sticky_key_hash import Int64Array, hash_range, sticky_from_murmur, sticky_hashes

_POINTS_MAX: Final = 1_000
# Dispatches that are looked at, and the rows of each part among which these are found.
_ROUTED_MAX: Final = 500
_REPEATED: Final = 40
# With fewer, some number explains them by chance.
_ROUTED_MIN: Final = 10
# Points that collide, or a join at the time of a dispatch, may route a few elsewhere.
_EXPLAINED_MIN: Final = 0.95
_ROUND: Final = (100, 50, 10, 5, 1)


class Routed(NamedTuple):
    """A dispatch: the murmur value of its key, its receiver, and the names of all consumers by their numbers."""

    murmur: int
    receiver: int
    names: Mapping[int, str]


def routed(replay: Subscription, kept: Sequence[Merged], until: int) -> list[Routed]:
    """Dispatches up to a row, each key and receiver once, with the consumers that a replay of the rows has then."""
    sent: dict[tuple[int, int], int] = {}
    for events in (part.events for part in kept):
        rows = np.flatnonzero((events.code == Code.DISPATCH_START) & (events.murmur >= 0) & (events.seq <= until))
        for at in rows[: _ROUTED_MAX * _REPEATED].tolist():
            sent.setdefault((int(events.murmur[at]), int(events.consumer[at])), int(events.seq[at]))
    stays = [(number, stay) for number, stay in replay.loop.membership.stays.items() if stay.joined is not None]
    return [
        Routed(*pair, {number: stay.row.name for number, stay in stays if _is_there(stay, seq)})
        for pair, seq in list(sent.items())[:_ROUTED_MAX]
    ]


def _is_there(stay: Stay, seq: int) -> bool:
    return stay.joined is not None and stay.joined.seq < seq and (stay.left is None or seq < stay.left.seq)


def points_by_dispatches(profile: Profile, routed: Sequence[Routed]) -> list[int]:
    """The numbers of points that explain dispatches best, the roundest first; none: no number explains nearly all.

    A consumer's points are the first ones of a row that does not depend on their number. Where consumers share a name,
    or the ring is of a release that has no index of names, dispatches show nothing here.
    """
    if profile.ring_point_text != "name_nul_index_nul_i":
        return []
    rule = profile.hash["consistent_hashing"]
    size, explained, used = hash_range(rule).size, np.zeros(_POINTS_MAX, dtype=np.int64), 0
    for sent in routed:
        sticky = int(sticky_from_murmur(sent.murmur, rule))
        if sent.receiver in sent.names and len(set(sent.names.values())) == len(sent.names):
            rows = [_points_in_order(name, rule) for name in sent.names.values()]
            ahead = [np.minimum.accumulate((row - sticky) % size) for row in rows]
            explained += np.argmin(ahead, axis=0) == list(sent.names).index(sent.receiver)
            used += 1
    best = int(explained.max())
    if used < _ROUTED_MIN or best < _EXPLAINED_MIN * used:
        return []
    found = (np.flatnonzero(explained == best) + 1).tolist()
    return sorted(found, key=lambda points: [points % step for step in _ROUND].index(0))


@lru_cache(maxsize=1_024)
def _points_in_order(name: str, hash_rule: str) -> Int64Array:
    return sticky_hashes([f"{name}\0{0}\0{point}".encode() for point in range(_POINTS_MAX)], hash_rule)
