"""Finds the exceptions of the contract that the marks of findings show (contract 9.3: E1, E2, E5, E6).

It runs while findings are collected, before those beyond the limit are only counted: with out-of-order delivery or
delayed messages millions are permitted, and none of these must count as a violation.
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE, NAME_OF, OVERTAKING, RULES, SINGLE_HOLDER
from dispatch_audit.pipeline.replay.state.marks import TRACKED, Mark
from dispatch_audit.pipeline.replay.state.records import Ints, Records

NOT_PERMITTED: Final = 0

_ORDERED = tuple(number for number, name in NAME_OF.items() if RULES[name].ordered)


def permitted(found: Records, keeps_order: bool, exceptions: Collection[ExceptionId]) -> Ints:
    """The number of the exception that permits each finding, or `NOT_PERMITTED`.

    Args:
        found: findings, with the marks that the entries had before the dispatch.
        keeps_order: False if the consumers allow out-of-order delivery; ownership is still promised.
        exceptions: the exceptions of the profile.
    """
    overtaking = np.isin(found.rule, OVERTAKING)
    cases: tuple[tuple[ExceptionId, npt.NDArray[np.bool_]], ...] = (
        ("E5", np.isin(found.rule, _ORDERED) & (not keeps_order)),
        # A nacked entry is in replay without its hash, so it blocks no entry and no entry blocks it (4.12, 5.6).
        ("E1", overtaking & _either(found, Mark.NACKED)),
        # Once sent when due, a delayed entry is like any other: when its consumer leaves, it returns with its hash.
        ("E2", overtaking & (_may_be_tracked(found.marks) | _may_be_tracked(found.other_marks))),
        ("E6", overtaking & _either(found, Mark.MAYBE_SKIPPED)),
        ("E6", (found.rule == SINGLE_HOLDER) & (found.other_marks & Mark.MAYBE_SKIPPED != 0)),
        # No consumer acknowledged it: a read in flight contained it when mark-delete passed it.
        ("E6", (found.rule == EARLY_DUPLICATE) & (found.acknowledged == 1) & (found.marks & Mark.PASSED != 0)),
    )
    # In reverse order, so that the first exception that applies remains.
    by = np.full(found.size, NOT_PERMITTED, dtype=np.int64)
    for exception, applies in reversed(cases):
        if exception in exceptions:
            by[applies] = int(exception[1:])
    return by


def _either(found: Records, mark: int) -> npt.NDArray[np.bool_]:
    either: npt.NDArray[np.bool_] = (found.marks | found.other_marks) & mark != 0
    return either


def _may_be_tracked(marks: Ints) -> npt.NDArray[np.bool_]:
    """Whether each entry was, or may have been, in the tracker of delayed entries since its last dispatch (4.13)."""
    tracked: npt.NDArray[np.bool_] = (marks & TRACKED == Mark.DELAYED) | (marks & Mark.SENT_EARLY != 0)
    return tracked
