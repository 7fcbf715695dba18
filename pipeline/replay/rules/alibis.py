"""Alibis: why a fact that findings rest on may not hold, and the one join of findings with them.

A rule says which facts its findings rest on (`Rule.rests_on`). An alibi is about one fact, and covers the findings
that rest on it, of its subject and in its time. The mildest alibi decides. So it does not matter in which order alibis
are found; where two are equally mild, the reason of the first in the list is given.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rule import Fact
from dispatch_audit.pipeline.contract.rules import NAME_OF, RULES
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.replay.state.marks import TRACKED, Mark
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen

NO_ALIBI: Final = -1

Mask: TypeAlias = NDArray[np.bool_]


class Alibi(NamedTuple):
    """A reason why a fact may not hold."""

    fact: Fact  # the fact
    # Whether it covers each of n findings that rest on the fact, by their subject and their time.
    covers: Callable[[Records], Mask]
    severity: Severity | None = None  # the severity of what it covers; None: that is no finding
    because: str = ""  # the reason as a clause; empty: nobody asks for it
    since_seq: int = UNKNOWN  # it covers only what comes after this row

    @property
    def badness(self) -> int:
        """Alibis of a lower badness are milder."""
        return NO_ALIBI if self.severity is None else SEVERITIES.index(self.severity)


def resting_on(fact: Fact) -> list[int]:
    """The numbers of the rules of the kernel whose findings rest on a fact."""
    return [number for number, name in NAME_OF.items() if fact in RULES[name].rests_on]


def everything(found: Records) -> Mask:
    """All findings."""
    return np.ones(found.size, dtype=np.bool_)


def joined(found: Records, alibis: Sequence[Alibi]) -> Ints:
    """For each finding the index of its alibi; NO_ALIBI: it has none."""
    by = np.full(found.size, NO_ALIBI, dtype=np.int64)
    # The mildest is written last, and of equally mild ones the first.
    for index in sorted(range(len(alibis)), key=lambda index: (-alibis[index].badness, -index)):
        alibi = alibis[index]
        at = np.flatnonzero(np.isin(found.rule, resting_on(alibi.fact)) & (found.seq > alibi.since_seq))
        if at.size:
            by[at[alibi.covers(chosen(found, at))]] = index
    return by


def standing(found: Records, alibis: Iterable[Alibi]) -> Records:
    """The findings that no alibi covers."""
    by = joined(found, [*alibis])
    return found if (by == NO_ALIBI).all() else chosen(found, by == NO_ALIBI)


NOT_PERMITTED: Final = 0


def permitted(found: Records, keeps_order: bool, exceptions: Collection[ExceptionId]) -> Ints:
    """The number of the exception of the profile that permits each finding, or `NOT_PERMITTED`.

    Findings have the marks of the entries before the dispatch. Where consumers allow it, nothing keeps order.
    """
    cases: tuple[tuple[ExceptionId, Fact, Callable[[Records], Mask]], ...] = (
        # Ownership is promised even so.
        ("E5", "ordered", lambda found: np.full(found.size, not keeps_order)),
        # A nacked entry is in replay without its hash, so it blocks no entry and no entry blocks it (4.12, 5.6).
        ("E1", "in order", lambda found: _either(found, Mark.NACKED)),
        # Once sent when due, a delayed entry is like any other: when its consumer leaves, it returns with its hash.
        ("E2", "in order", lambda found: _may_be_tracked(found.marks) | _may_be_tracked(found.other_marks)),
        ("E6", "in order", lambda found: _either(found, Mark.MAYBE_SKIPPED)),
        ("E6", "one holder", lambda found: found.other_marks & Mark.MAYBE_SKIPPED != 0),
        # No consumer acknowledged it: a read in flight contained it when mark-delete passed it.
        ("E6", "once", lambda found: (found.acknowledged == 1) & (found.marks & Mark.PASSED != 0)),
    )
    known = [case for case in cases if case[0] in exceptions]
    # The last number is that of a finding with NO_ALIBI.
    numbers = np.array([*(int(exception[1:]) for exception, _, _ in known), NOT_PERMITTED], dtype=np.int64)
    by: Ints = numbers[joined(found, [Alibi(fact, covers, "permitted") for _, fact, covers in known])]
    return by


def _either(found: Records, mark: int) -> Mask:
    either: Mask = (found.marks | found.other_marks) & mark != 0
    return either


def _may_be_tracked(marks: Ints) -> Mask:
    """Whether each entry was, or may have been, in the tracker of delayed entries since its last dispatch (4.13)."""
    tracked: Mask = (marks & TRACKED == Mark.DELAYED) | (marks & Mark.CLAIMED_DUE != 0)
    return tracked
