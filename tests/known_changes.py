"""Membership changes whose order is known, one after the other, as `HashOwners.enter` adds them to a log."""

import numpy as np

from dispatch_audit.pipeline.assignment import AssignmentLog, DeclaredRanges, Undecided
from dispatch_audit.pipeline.assignment.join_orders import Burst
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Observed


def join(log: AssignmentLog, consumer: int, name: str, seq: int, ranges: DeclaredRanges = ()) -> bool:
    """A consumer joins; returns whether that begins an epoch, as do the others."""
    return _enter(log, Change("join", consumer, name, ranges), seq)


def leave(log: AssignmentLog, consumer: int, seq: int) -> bool:
    """A consumer leaves."""
    return _enter(log, Change("leave", consumer, ""), seq)


def reset(log: AssignmentLog, seq: int) -> bool:
    """A seek, unload or transfer closes all consumers."""
    return _enter(log, Change("reset", -1, ""), seq)


def _enter(log: AssignmentLog, change: Change, seq: int) -> bool:
    in_order = np.zeros((1, 1), dtype=np.bool_)
    resolved = log.resolve(Burst([change], in_order, Observed(None, NO_DISPATCHES)), 1)
    begins = log.enter(change, resolved.possible[0], Undecided(resolved.undecided[-1], ""), seq)
    log.settle(resolved)
    return begins
