"""Between which rows a membership change took effect."""

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket, PairedSides
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows


@checkpointed("change_bounds")
class ChangeBounds:
    """The bounds of the changes of one subscription, as far as rows so far and other changes show them."""

    __slots__ = ("_held", "_paired", "_placed_seq", "_skew_us")

    def __init__(self, held: HeldRows, paired: PairedSides, skew_us: int) -> None:
        """Takes the rows that are held, the changes by their sides, and the recorder skew."""
        self._held = held
        self._paired = paired
        self._skew_us = skew_us
        self._placed_seq = -1  # the row after which the last change took effect

    def of(self, bracket: Bracket) -> Bounds:
        """The seqs between which the change took effect."""
        if bracket.start is not None and not bracket.vague:
            after = bracket.start.seq
        else:
            after = self._held.point_before(bracket.bounds_ts_us(self._skew_us)[0]).seq
        if bracket.end is not None:
            before = bracket.end.seq
        else:
            before = self._held.point_before(bracket.bounds_ts_us(self._skew_us)[1] + 1).seq + 1
        if bracket.join is not None:
            # However vague its rows are, a consumer leaves after it has joined.
            joined = bracket.join.placed
            after = max(after, joined.seq if joined is not None else self.of(bracket.join)[0])
        if bracket.seen_before is not None:
            before = min(before, bracket.seen_before)
        # Changes that have taken effect stay before all later ones.
        after = max(after, bracket.seen_after, self._placed_seq)
        return after, max(before, after + 1)

    def place(self, bracket: Bracket, at: TracePoint) -> None:
        """Notes that a change takes effect at a point; all others do later."""
        bracket.placed = at
        self._placed_seq = at.seq

    def closed_by(self, reset: Bracket) -> set[int]:
        """The consumers that joined certainly before a reset: it closed them all, unless they had gone before."""
        since = self.of(reset)[0]
        joins = (b for b in self._paired.open if b.row.kind == "join")
        return self._paired.joined.union(b.row.consumer for b in joins if self.of(b)[1] <= since)
