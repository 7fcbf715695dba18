"""The membership changes that have not taken effect: which of them overlap, and between which rows each took effect."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Final

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.timeline.brackets import WAIT_US_MAX, Bracket, Brackets
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.presence_bounds import (
    note_dispatches,
    note_resets,
    note_view,
    separated,
    shown,
)
from dispatch_audit.pipeline.replay.timeline.snapshot_views import View

# The number of open brackets that are looked at first; few changes overlap as a rule.
_FIRST_LOOK: Final = 2


@checkpointed("open_changes")
class OpenChanges:
    """The open brackets of one subscription, and what narrows them."""

    __slots__ = ("_held", "_undecided_rows_max", "brackets", "views")

    def __init__(self, held: HeldRows, skew_us: int, undecided_rows_max: int) -> None:
        """Takes the rows that are held, the recorder skew, and for how many rows an open order waits for evidence."""
        # The assignments in snapshots that may show open changes, in the order in which they were taken.
        self.views: list[View] = []
        self._held = held
        self._undecided_rows_max = undecided_rows_max
        self.brackets = Brackets(held, skew_us)  # those of all changes; the open ones have not taken effect

    def drop_views(self, seq: int, shown_by: Collection[int]) -> None:
        """Drops the snapshots that were taken up to a row, except some: they may show another change at that row."""
        if self.views:
            self.views = [view for view in self.views if view.until.seq > seq or view.snapshot in shown_by]

    @property
    def first_seq(self) -> int:
        """The row after which the first of the changes may have taken effect; `NEVER`: none is open."""
        return min((b.bounds[0] for b in self.brackets.open), default=NEVER)

    def floors(self) -> Mapping[int, int]:
        """For each open bracket, by its identity, a row before which neither it nor a bracket opened later begins.

        While brackets are narrowed and placed, each can only begin later, so this holds until rows are added.
        """
        opened = self.brackets.open[::-1]
        lowest = accumulate((bracket.bounds[0] for bracket in opened), min)
        return dict(zip(map(id, opened), lowest, strict=True))

    def ready(
        self, final: bool, certain_us: int, floors: Mapping[int, int]
    ) -> tuple[list[Bracket], View | None] | None:
        """The earliest changes that overlap, in a possible order, as soon as no later row can change anything.

        Args:
            final: whether no row follows.
            certain_us: the time up to which later rows change nothing.
            floors: the result of `floors`.

        Returns:
            The changes; if they are several, with the first snapshot that shows the ranges after all of them, if there
            is one. None: no change is open, or the earliest have to wait.
        """
        if not self.brackets.open:
            return None
        cluster = self._first_cluster(floors)
        if not final and not all(b.closed(certain_us) for b in cluster):
            return None
        self._narrow(cluster)
        if len(cluster) > 1:
            cluster = self._first_cluster(floors)
        if len(cluster) == 1:
            return cluster, None
        view = self._view_after(cluster)
        if view is not None:
            return self._shown_by(view, cluster), view
        last_us, first = max(b.bounds_ts_us[1] for b in cluster), min(b.bounds[0] for b in cluster)
        waited = certain_us > last_us + WAIT_US_MAX and self._held.count_after(first) > self._undecided_rows_max
        return (cluster, None) if final or waited else None

    def _first_cluster(self, floors: Mapping[int, int]) -> list[Bracket]:
        """The earliest changes whose brackets overlap, in the likeliest order; `floors` is the result of `floors`."""
        opened, looked_at = self.brackets.open, _FIRST_LOOK
        while True:
            cluster, until = self._cluster_among(opened[:looked_at])
            if looked_at >= len(opened) or floors[id(opened[looked_at])] >= until:
                return self._in_order(cluster)
            looked_at *= 2

    def _cluster_among(self, changes: Sequence[Bracket]) -> tuple[list[Bracket], int]:
        """The earliest of these changes whose brackets overlap, and the row by which all of them have happened."""
        bounds = {id(b): b.bounds for b in changes}
        by_start = sorted(changes, key=lambda b: (*bounds[id(b)], b.bounds_ts_us[0]))
        cluster: list[Bracket] = []
        until, until_us = -1, 0
        for bracket in by_start:
            after, before = bounds[id(bracket)]
            since_us, before_us = bracket.bounds_ts_us
            # If no row lies between two changes, only their times show that one ended before the other began.
            alone = (bracket.vague or bracket.start is None) and since_us > until_us
            if cluster and (after >= until or alone or all(separated(other, bracket) for other in cluster)):
                break
            cluster.append(bracket)
            until, until_us = max(until, before), max(until_us, before_us)
        return cluster, until

    def _in_order(self, changes: Sequence[Bracket]) -> list[Bracket]:
        """The changes in the likeliest order that their bounds allow, the order of their ends.

        The early sides show less: clients subscribe long before the broker admits them, and in another order. A
        consumer that is not known to have left by the end of a restart more likely joined after it.
        """
        joins = [b for b in changes if b.row.kind == "join"]
        stays = [(b.bounds[1], NEVER if b.leave is None else b.leave.bounds[0]) for b in joins]

        def ends(bracket: Bracket) -> tuple[int, int]:
            after, before = bracket.bounds
            if bracket.row.kind == "reset":
                before = min([before, *(joined for joined, left in stays if joined > after and left >= before)])
            # At one row: a restart ends after its consumers are gone and before new ones join; joins precede leaves.
            return before, ("reset", "join", "leave").index(bracket.row.kind)

        return sorted(changes, key=ends)

    def _narrow(self, cluster: Sequence[Bracket]) -> None:
        """Narrows the bounds of changes by the dispatches and snapshots among them."""
        bounds = [b.bounds for b in cluster]
        after, before = min(after for after, _ in bounds), max(before for _, before in bounds)
        decisions = self._held.decisions(after, before)
        if decisions.seq.size:
            note_dispatches(cluster, decisions)
        # A consumer that a snapshot lists has not left, so an earlier one that does not list it precedes its join.
        for leave in (b.leave for b in cluster if b.leave is not None):
            since, until = leave.bounds
            for view in self.views:
                if since <= view.until.seq and view.since.seq < until:
                    note_view([leave], view)
        views = [view for view in self.views if after <= view.until.seq and view.since.seq < before]
        for view in views:
            note_view(cluster, view)
        # A restart did not close a consumer seen after it; what snapshots show depends on the leaves that it caused.
        if note_resets(cluster):
            for view in views:
                note_view(cluster, view)

    def _view_after(self, cluster: Sequence[Bracket]) -> View | None:
        """The first snapshot that shows the ranges after all of the changes."""
        before = max(b.bounds[1] for b in cluster)
        last_seq = self._held.seq_after(min(b.bounds[0] for b in cluster), self._undecided_rows_max)
        for view in self.views:
            if view.ranges is not None and before <= view.until.seq + 1 and view.snapshot <= last_seq:
                happened = [shown(view, b) for b in self.brackets.open]
                if None not in happened:
                    return view
        return None

    def _shown_by(self, view: View, cluster: list[Bracket]) -> list[Bracket]:
        """The changes of a cluster and all others that happened before a snapshot, in a possible order."""
        others = [b for b in self.brackets.open if b not in cluster and shown(view, b)]
        note_view([*cluster, *others], view)
        if others:
            self._narrow(others)
        return self._in_order([*cluster, *others])
