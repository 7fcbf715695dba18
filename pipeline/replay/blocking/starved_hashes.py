"""Hashes that could be served and were not, while their owners or others were sent later entries (V10, V11).

With a stuck broker all hashes may starve, again and again. A limited number is kept; the rest is counted by the facts
that decide its verdict, so that it gets the severity that it would have with its evidence.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval, Waiters, are_before
from dispatch_audit.pipeline.replay.blocking.ownership_moves import OwnershipMove
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.seen import Seen


def unserved_since_drained(state: Seen, waiting: Waiters) -> NDArray[np.bool_]:
    """Which entries have a hash that had drained, and no pending entry of it at the owner."""
    hashes: Any = state.hashes.view(np.ndarray)[waiting.hash_at]
    served = (hashes["held"] > 0) & (hashes["holder"] == waiting.owner)
    unserved: NDArray[np.bool_] = (hashes["drained_from"] != NOBODY) & ~served
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
    unserved_us = state.waits.consumers.view(np.ndarray)["unserved_us"][waiting.owner]
    unserved_us = unserved_us - waits["clear_unserved_us"][waiting.hash_at]
    found = passed & (owners["sent_ts"] - since_us - unserved_us >= longest_us)
    if sent is not None:
        hash_at = entries["hash_at"][(entries["ledger"] == sent[0]) & (entries["entry"] == sent[1])]
        to = state.hashes.view(np.ndarray)["owner"][hash_at]
        found |= np.isin(waiting.owner, to) & are_before(state, waiting.slot, sent)
    return bool(np.isin(waiting.hash, waiting.hash[found]).all())


@checkpointed("starvation_kind")
class StarvationKind(NamedTuple):
    """The facts that decide the verdict on a starved hash.

    Attributes:
        drained: whether the hash drained from another consumer before.
        counted_again: whether its pending entries were counted as draining more than once there (contract 3.9).
    """

    drained: bool
    counted_again: bool


@checkpointed("starved_hash")
class StarvedHash(NamedTuple):
    """A hash that could be served and was not, while its owner or another consumer was sent later entries.

    Attributes:
        hash: the sticky hash.
        owner: the index of its owner.
        span: the interval in which it was starved.
        entries: the number of entries that waited at the end.
        head: the position of the first of them.
        passed: the position of the later entry that was sent last, at `passed_ts`, to `passed_by`.
        passed_by: the index of the owner; of another consumer if the owner was sent nothing.
        drained_from: the index of the consumer from which it drained before; NOBODY: it never drained.
        registered: how often its pending entries were counted as draining there.
        moves: the moves of the hash while entries of it were held.
        rests_on: the settings that no row says and that might explain it.
        unknown: those of them of which nothing may be assumed.
    """

    hash: int
    owner: int
    span: Interval
    entries: int
    head: tuple[int, int]
    passed: tuple[int, int]
    passed_ts: int
    passed_by: int
    drained_from: int
    registered: int
    moves: tuple[OwnershipMove, ...]
    rests_on: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def kind(self) -> StarvationKind:
        """The facts that decide the verdict."""
        return StarvationKind(self.drained_from != NOBODY, self.registered > 1)

    def goes_on(self, head: tuple[int, int], until_us: int) -> bool:
        """Whether it continues a starvation with this head that ended then, under another owner of the hash."""
        return self.head == head and self.span.from_ts == until_us


@checkpointed("starved_hashes")
class StarvedHashes:
    """The starved hashes, up to a limit, in the order in which they were found.

    Attributes:
        kept: the starved hashes up to the limit.
        beyond: the number of those beyond the limit, by kind.
    """

    __slots__ = ("_kept_last", "_kept_max", "beyond", "kept")

    def __init__(self, kept_max: int) -> None:
        self.kept: list[StarvedHash] = []
        self.beyond: Counter[StarvationKind] = Counter()
        self._kept_max = kept_max
        self._kept_last: dict[int, int] = {}

    def add(self, found: StarvedHash) -> None:
        """Adds a starved hash; one that continues under another owner replaces its beginning."""
        at = self._kept_last.get(found.hash)
        if at is not None and found.goes_on(self.kept[at].head, self.kept[at].span.to_ts):
            last = self.kept[at].span
            self.kept[at] = found._replace(span=found.span._replace(from_seq=last.from_seq, from_ts=last.from_ts))
        elif len(self.kept) < self._kept_max:
            self._kept_last[found.hash] = len(self.kept)
            self.kept.append(found)
        else:
            self.beyond[found.kind] += 1

    def clear(self) -> None:
        """Drops everything, the counts included."""
        self.kept.clear()
        self.beyond.clear()
        self._kept_last.clear()

    def forget(self, reported_seq: int) -> None:
        """Drops what ended up to the row `reported_seq`, and the counts."""
        staying = [number for number, found in enumerate(self.kept) if found.span.to_seq > reported_seq]
        moved = {number: at for at, number in enumerate(staying)}
        self.kept = [self.kept[number] for number in staying]
        self._kept_last = {h: moved[number] for h, number in self._kept_last.items() if number in moved}
        self.beyond.clear()
