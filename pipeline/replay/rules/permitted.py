"""The exceptions of the contract that the marks of findings show (contract 9.3: E1, E2, E5, E6), as alibis.

They are joined while findings are collected, before those beyond the limit are only counted: with out-of-order delivery
or delayed messages millions are permitted, and none of these must count as a violation.
"""

from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rule import Fact
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask, everything, joined
from dispatch_audit.pipeline.replay.state.marks import TRACKED, Mark
from dispatch_audit.pipeline.replay.state.records import Ints, Records

NOT_PERMITTED: Final = 0


def permitted(found: Records, keeps_order: bool, exceptions: Collection[ExceptionId]) -> Ints:
    """The number of the exception of the profile that permits each finding, or `NOT_PERMITTED`.

    Findings have the marks of the entries before the dispatch. Where consumers allow it, nothing keeps order.
    """
    cases: tuple[tuple[ExceptionId, Alibi], ...] = (
        # Ownership is promised even so.
        *([_permitted("ordered", everything, "E5")] if not keeps_order else []),
        # A nacked entry is in replay without its hash, so it blocks no entry and no entry blocks it (4.12, 5.6).
        _permitted("in order", lambda found: _either(found, Mark.NACKED), "E1"),
        # Once sent when due, a delayed entry is like any other: when its consumer leaves, it returns with its hash.
        _permitted("in order", lambda found: _may_be_tracked(found.marks) | _may_be_tracked(found.other_marks), "E2"),
        _permitted("in order", lambda found: _either(found, Mark.MAYBE_SKIPPED), "E6"),
        _permitted("one holder", lambda found: found.other_marks & Mark.MAYBE_SKIPPED != 0, "E6"),
        # No consumer acknowledged it: a read in flight contained it when mark-delete passed it.
        _permitted("once", lambda found: (found.acknowledged == 1) & (found.marks & Mark.PASSED != 0), "E6"),
    )
    alibis = [(exception, alibi) for exception, alibi in cases if exception in exceptions]
    # The last number is that of a finding with NO_ALIBI.
    numbers = np.array([*(int(exception[1:]) for exception, _ in alibis), NOT_PERMITTED], dtype=np.int64)
    by: Ints = numbers[joined(found, [alibi for _, alibi in alibis])]
    return by


def _permitted(fact: Fact, covers: Callable[[Records], Mask], exception: ExceptionId) -> tuple[ExceptionId, Alibi]:
    return exception, Alibi(fact, covers, "permitted")


def _either(found: Records, mark: int) -> Mask:
    either: Mask = (found.marks | found.other_marks) & mark != 0
    return either


def _may_be_tracked(marks: Ints) -> Mask:
    """Whether each entry was, or may have been, in the tracker of delayed entries since its last dispatch (4.13)."""
    tracked: Mask = (marks & TRACKED == Mark.DELAYED) | (marks & Mark.CLAIMED_DUE != 0)
    return tracked
