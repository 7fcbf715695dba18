"""Narrows the bounds of joins, leaves and resets by dispatches and snapshots.

A consumer that is sent an entry is connected. A consumer that a snapshot lists is connected, and one that it does not
list is not. A restart closes all consumers, so one that is still connected shows that the restart had yet to come. So
the bounds of overlapping changes become narrower, and often only one order remains.
"""

from collections.abc import Collection, Sequence

import numpy as np

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.resolve import closed
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import Evidence
from dispatch_audit.pipeline.replay.timeline.snapshot_views import View


def note_dispatches(changes: Sequence[Bracket], evidence: Evidence) -> None:
    """Moves joins before the first dispatch to the consumer, and leaves and restarts after the last decision for it."""
    for bracket in changes:
        inside = evidence.between(*bracket.bounds)
        if not inside.seq.size:
            continue
        if bracket.row.kind == "reset":
            seqs = inside.seq[np.isin(inside.consumers, [*bracket.closed_consumers])]
        else:
            seqs = inside.seq[inside.consumers == bracket.row.consumer]
        if not seqs.size:
            continue
        if bracket.row.kind == "join":
            bracket.seen_before = int(seqs[0])
        elif not evidence.recorded_late:
            # Only the decision is made under the dispatcher's lock; a later end may belong to an earlier decision.
            bracket.seen_after = int(seqs[-1])


def note_view(changes: Sequence[Bracket], view: View) -> None:
    """Moves the bounds of changes to the side of the snapshot on which they happened."""
    for bracket in changes:
        happened = shown(view, bracket)
        after, before = bracket.bounds
        if happened and after <= view.until.seq:
            bracket.shown_by.add(view.snapshot)
            bracket.seen_before = min(before, view.until.seq + 1)
        elif happened is False and view.since.seq < before:
            bracket.hidden_from.add(view.snapshot)
            bracket.seen_after = max(after, view.since.seq)


def precedence(changes: Sequence[Bracket], there: Collection[int]) -> Precedence:
    """(n, n): which of n changes, given in a likely order, certainly happened before which, transitively.

    A snapshot or a dispatch after all of the changes shows the consumers that are `there`.
    """
    if len(changes) == 1:
        return np.zeros((1, 1), dtype=np.bool_)
    after, before = np.array([bracket.bounds for bracket in changes], dtype=np.int64).T
    known: Precedence = after[None, :] >= before[:, None]
    for number, bracket in enumerate(changes):
        for other_number, other in enumerate(changes):
            known[number, other_number] |= other.join is bracket or separated(bracket, other)
    for reset in (number for number, bracket in enumerate(changes) if bracket.row.kind == "reset"):
        closed_are_named = _names_closed(changes[reset], changes)
        for number, bracket in enumerate(changes):
            if known[number, reset] or known[reset, number] or bracket.row.kind == "reset":
                continue
            # A restart closes all consumers, so a consumer that is connected after it joined after it.
            leave = bracket if bracket.row.kind == "leave" else bracket.leave
            survives = leave is None or not _overlaps(leave, changes[reset])
            # Without rows for the closed consumers a missing row proves nothing, but a later dispatch or snapshot does.
            known[reset, number] |= survives and (closed_are_named or bracket.row.consumer in there)
            known[number, reset] |= leave is not None and _closed_with(leave, changes[reset], closed_are_named)
    known = closed(known)
    # If rows contradict each other, no order is possible: then the given order is used.
    return np.triu(np.ones_like(known), 1) if (known & known.T).any() else known


def note_resets(changes: Sequence[Bracket]) -> bool:
    """Moves leaves that a restart causes before its end; their rows may come a little later.

    Returns:
        Whether it moved any.
    """
    moved = False
    for reset in (bracket for bracket in changes if bracket.row.kind == "reset"):
        over, named = reset.bounds[1], _names_closed(reset, changes)
        for bracket in changes:
            after, before = bracket.bounds
            inside = bracket.row.kind == "leave" and after < over < before
            if inside and _closed_with(bracket, reset, named):
                bracket.seen_before, moved = over, True
    return moved


def _overlaps(leave: Bracket, reset: Bracket) -> bool:
    """Whether a restart may have closed a consumer: the leave may have happened before the end of the restart."""
    return leave.bounds[0] < reset.bounds[1]


def _names_closed(reset: Bracket, changes: Sequence[Bracket]) -> bool:
    """Whether rows name consumers that a restart closed."""
    return any(b.vague and b.row.kind == "leave" and _overlaps(b, reset) for b in changes)


def _closed_with(leave: Bracket, reset: Bracket, named: bool) -> bool:
    """Whether a consumer was gone when a restart was over: the restart closed it, or it had left before.

    Args:
        leave: its leave.
        reset: the restart.
        named: whether rows name consumers that the restart closed. If so, a consumer with another row, which may have
            joined after the restart, may have left after it as well.
    """
    if not _overlaps(leave, reset):
        return False
    join = leave.join
    was_there = join is None or join.placed is not None or join.bounds[1] <= reset.bounds[0]
    return was_there or leave.vague or not named


def separated(one: Bracket, other: Bracket) -> bool:
    """Whether a snapshot was taken after one change and before the other."""
    return not one.shown_by.isdisjoint(other.hidden_from)


def shown(view: View, bracket: Bracket) -> bool | None:
    """Whether a change had happened when a snapshot was taken; None: the snapshot does not show it."""
    after, before = bracket.bounds
    if before <= view.since.seq or after > view.until.seq:
        return before <= view.since.seq
    if bracket.row.kind == "reset":
        return None if view.listed.isdisjoint(bracket.closed_consumers) else False
    listed = bracket.row.consumer in view.listed
    if bracket.row.kind == "leave" and listed:
        return False
    if view.ranges is None:
        # The snapshot may leave out consumers, and it lists a consumer before the selector has a range for it.
        return None
    if bracket.row.kind == "leave":
        join = bracket.join
        return True if join is None or join.placed is not None or join.bounds[1] <= view.since.seq else None
    # A consumer that is not listed has not joined, unless it has already left.
    may_have_left = bracket.leave is not None and bracket.leave.bounds[0] <= view.until.seq
    return None if may_have_left and not listed else listed
