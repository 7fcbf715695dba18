"""Where the trace leaves open which consumer owned a hash, because it leaves open which join came first.

Nothing that depends on the owner is a violation there.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.assignment.ranges.hash_ranges import ALL_HASHES, HashRanges, contains
from pipeline.replay.state.state import Ints

RANGES_MAX = 200_000
"""So many ranges are kept with their doubts; older doubts concern all hashes then."""


class UndecidedRange(NamedTuple):
    """The owners of some hashes are open between two rows.

    Attributes:
        from_seq: the first row that is concerned.
        to_seq: the last one; None: the doubt goes on.
        ranges: of the hashes as the selector looks them up, inclusive.
        because: the changes whose order is open, in words.
    """

    from_seq: int
    to_seq: int | None
    ranges: HashRanges
    because: str

    def concerns(self, from_seq: int, to_seq: int) -> bool:
        """Whether rows between two, inclusive, are concerned."""
        return from_seq <= (to_seq if self.to_seq is None else self.to_seq) and self.from_seq <= to_seq

    def meets(self, later: "UndecidedRange") -> bool:
        """Whether another one that is over too concerns the same hashes, and no row lies between the two."""
        if self.to_seq is None or later.to_seq is None or self.ranges != later.ranges:
            return False
        return self.from_seq <= later.to_seq + 1 and later.from_seq <= self.to_seq + 1

    def joined(self, later: "UndecidedRange") -> "UndecidedRange":
        """One instead of two that meet."""
        to = max(self.to_seq or 0, later.to_seq or 0)
        return self._replace(from_seq=min(self.from_seq, later.from_seq), to_seq=to)


class UndecidedRanges:
    """The doubts about one subscription, in the order of their first rows."""

    def __init__(self) -> None:
        """Starts without any."""
        self.all: list[UndecidedRange] = []
        self.modulus = 0
        self._ranges = 0  # of those that are not coarse, and perhaps some more

    def __bool__(self) -> bool:
        return bool(self.all)

    def about(self, sticky_hash: int, from_seq: int, to_seq: int | None = None) -> UndecidedRange | None:
        """A doubt about the owner of a hash at a row, or between two; None: it is known."""
        slot = np.array([sticky_hash % self.modulus if self.modulus else sticky_hash], dtype=np.int64)
        last = from_seq if to_seq is None else to_seq
        for doubt in self.all:
            if doubt.concerns(from_seq, last) and contains(doubt.ranges, slot)[0]:
                return doubt
        return None

    def between(self, from_seq: int, to_seq: int) -> list[UndecidedRange]:
        """The doubts that concern rows between two, inclusive."""
        return [doubt for doubt in self.all if doubt.concerns(from_seq, to_seq)]

    def which(self, seq: Ints, hashes: Ints) -> NDArray[np.bool_]:
        """Which of n dispatches go to an owner that is open."""
        found = np.zeros(seq.size, dtype=np.bool_)
        slots = hashes % self.modulus if self.modulus else hashes
        for doubt in self.between(int(seq.min()), int(seq.max())) if seq.size else ():
            within = (seq >= doubt.from_seq) & ((doubt.to_seq is None) | (seq <= (doubt.to_seq or 0)))
            found[within] |= contains(doubt.ranges, slots[within])
        return found

    @property
    def going_on(self) -> UndecidedRange | None:
        """The doubt that goes on, if there is one."""
        return next((doubt for doubt in reversed(self.all) if doubt.to_seq is None), None)

    def add(self, doubt: UndecidedRange) -> None:
        """Takes a doubt; one that goes on has to be ended before another one may."""
        if not doubt.ranges:
            return
        if self.all and self.all[-1].meets(doubt):
            self.all[-1] = self.all[-1].joined(doubt)
            return
        self.all.append(doubt)
        self._ranges += len(doubt.ranges)
        if self._ranges > RANGES_MAX:
            self._coarsen()

    def _coarsen(self) -> None:
        """Doubts all hashes where the oldest doubts concern some: a long trace may have many bursts."""
        kept, known = len(self.all), 0
        while kept and known + len(self.all[kept - 1].ranges) <= RANGES_MAX // 2:
            kept -= 1
            known += len(self.all[kept].ranges)
        coarse: list[UndecidedRange] = []
        for doubt in self.all[:kept]:
            whole = doubt._replace(ranges=ALL_HASHES)
            if coarse and coarse[-1].meets(whole):
                coarse[-1] = coarse[-1].joined(whole)
            else:
                coarse.append(whole)
        self.all[:kept] = coarse
        self._ranges = known

    def end(self, seq: int) -> None:
        """The doubt that goes on ends with a row."""
        self.all = [doubt._replace(to_seq=seq) if doubt.to_seq is None else doubt for doubt in self.all]

    def withdraw(self) -> None:
        """What was assumed since the doubt that goes on began has turned out to be right."""
        self.all = [doubt for doubt in self.all if doubt.to_seq is not None]


def in_words(changes: Iterable[str]) -> str:
    """Why the owners are open, as a clause."""
    named: Sequence[str] = sorted(set(changes))
    told = ", ".join(named[:_NAMED_MAX]) + (f" and {len(named) - _NAMED_MAX} others" if len(named) > _NAMED_MAX else "")
    return f"the trace does not show in which order these happened: {told}"


_NAMED_MAX = 6
