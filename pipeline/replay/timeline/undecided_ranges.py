"""The hashes whose owners are unknown because the order of joins is unknown, and between which rows.

A finding there that depends on the owner is not a violation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment.ranges.hash_ranges import ALL_HASHES, HashRanges, contains
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.state.records import Ints, Records

RANGES_MAX = 200_000
"""The number of ranges that are kept; beyond it, older doubts concern all hashes."""
# The number of changes that a reason names.
_NAMED_MAX = 6


@checkpointed("undecided_range")
class UndecidedRange(NamedTuple):
    """Hashes whose owners are open between two rows: a doubt."""

    from_seq: int  # the first row that is concerned
    to_seq: int | None  # the last row; None: the doubt goes on
    ranges: HashRanges  # the hashes, as the selector looks them up, inclusive
    because: str  # the changes whose order is open, in words

    def concerns(self, from_seq: int, to_seq: int) -> bool:
        """Whether the doubt concerns a row between two, inclusive."""
        return from_seq <= (to_seq if self.to_seq is None else self.to_seq) and self.from_seq <= to_seq


@checkpointed("undecided_ranges")
@dataclass(eq=False, slots=True)
class UndecidedRanges:
    """The doubts about one subscription, in the order of their first rows."""

    all: list[UndecidedRange] = field(default_factory=list)
    modulus: int = 0
    _ranges: int = 0  # at least the number of ranges of the doubts that are not coarse

    def __bool__(self) -> bool:
        return bool(self.all)

    def about(self, sticky_hash: int, from_seq: int, to_seq: int | None = None) -> UndecidedRange | None:
        """A doubt about the owner of a hash at a row, or between two rows; None: the owner is known."""
        slot = np.array([sticky_hash % self.modulus if self.modulus else sticky_hash], dtype=np.int64)
        last = from_seq if to_seq is None else to_seq
        for doubt in self.all:
            if doubt.concerns(from_seq, last) and contains(doubt.ranges, slot)[0]:
                return doubt
        return None

    def between(self, from_seq: int, to_seq: int) -> list[UndecidedRange]:
        """The doubts that concern a row between two, inclusive."""
        return [doubt for doubt in self.all if doubt.concerns(from_seq, to_seq)]

    def which(self, seq: Ints, hashes: Ints) -> NDArray[np.bool_]:
        """Which of n dispatches have hashes whose owner is open."""
        found = np.zeros(seq.size, dtype=np.bool_)
        for doubt in self.between(int(seq.min()), int(seq.max())) if seq.size else ():
            found |= self._concerned(doubt, seq, hashes)
        return found

    def covers(self, doubt: UndecidedRange, findings: Records) -> NDArray[np.bool_]:
        """Which of n findings one of the doubts is about."""
        return self._concerned(doubt, findings.seq, findings.hash)

    def _concerned(self, doubt: UndecidedRange, seq: Ints, hashes: Ints) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (seq >= doubt.from_seq) & ((doubt.to_seq is None) | (seq <= (doubt.to_seq or 0)))
        slots = hashes[found] % self.modulus if self.modulus else hashes[found]
        found[found] = contains(doubt.ranges, slots)
        return found

    @property
    def going_on(self) -> UndecidedRange | None:
        """The doubt that goes on, if there is one."""
        return next((doubt for doubt in reversed(self.all) if doubt.to_seq is None), None)

    def add(self, doubt: UndecidedRange) -> None:
        """Adds a doubt; end a doubt that goes on before adding another one that goes on."""
        if not doubt.ranges:
            return
        self.all.append(doubt)
        self._ranges += len(doubt.ranges)
        if self._ranges > RANGES_MAX:
            # So that a long trace with many bursts needs little memory.
            self.all = [*(older._replace(ranges=ALL_HASHES) for older in self.all[:-1]), doubt]
            self._ranges = len(self.all) + len(doubt.ranges)

    def end(self, seq: int) -> None:
        """Ends the doubt that goes on at a row."""
        self.all = [doubt._replace(to_seq=seq) if doubt.to_seq is None else doubt for doubt in self.all]

    def withdraw(self) -> None:
        """Removes the doubt that goes on: the assumed owners have turned out to be right."""
        self.all = [doubt for doubt in self.all if doubt.to_seq is not None]


def in_words(changes: Iterable[str]) -> str:
    """The reason why owners are open, as a clause."""
    names: Sequence[str] = sorted(set(changes))
    more = f" and {count(len(names) - _NAMED_MAX, 'other')}" if len(names) > _NAMED_MAX else ""
    return f"the trace does not show in which order these happened: {', '.join(names[:_NAMED_MAX])}{more}"
