"""The assignment that snapshots of the broker report: the consumers and their ranges, between two rows.

A snapshot may leave out ranges that equal those of the snapshot before, or name only what has changed (TRACE_FORMAT,
`key_hash_ranges`).
"""

from typing import NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot


@checkpointed("view")
class View(NamedTuple):
    """The assignment in one snapshot.

    Attributes:
        snapshot: the seq of its row.
        since: the point after which it was taken.
        until: the point before or at which it was taken.
        listed: the consumers that it lists.
        ranges: of each consumer; None if the ranges of some are unknown.
    """

    snapshot: int
    since: TracePoint
    until: TracePoint
    listed: frozenset[int]
    ranges: tuple[tuple[int, frozenset[tuple[int, int]]], ...] | None

    def reported(self) -> ReportedRanges | None:
        """The ranges of all consumers; made at each call, because few snapshots decide anything."""
        if self.ranges is None:
            return None
        return ReportedRanges.of((*both, consumer) for consumer, of_one in self.ranges for both in of_one)


def view_of(snapshot: Snapshot, since: TracePoint, until: TracePoint) -> View:
    """The assignment in a snapshot that was taken between two points and whose ranges are filled in."""
    listed = frozenset(consumer.consumer for consumer in snapshot.consumers)
    ranges = tuple((consumer.consumer, consumer.ranges) for consumer in snapshot.consumers if consumer.ranges)
    complete = bool(ranges) and len(ranges) == len(snapshot.consumers)
    return View(snapshot.seq, since, until, listed, ranges if complete else None)


@checkpointed("latest_ranges")
class OmittedRanges:
    """Fills in the ranges that snapshots leave out because they follow from those of the snapshot before.

    Two threads of a recorder may take snapshots at about the same time and write them in the other order. So ranges are
    filled in only for the same set of consumers: a join or leave in between changes the ranges.
    """

    __slots__ = ("_lost_until", "_ranges", "_seq")

    def __init__(self) -> None:
        self._ranges: dict[int, frozenset[tuple[int, int]]] = {}
        self._seq = self._lost_until = -1

    def lose(self, until_seq: int) -> None:
        """Notes that snapshots are missing between the last one and a row, and perhaps others that follow before it."""
        self._lost_until = max(self._lost_until, until_seq)

    def filled(self, snapshot: Snapshot) -> Snapshot:
        """Takes the next snapshot; returns it with the ranges that it leaves out, as far as they are known."""
        if self._lost_until > self._seq:
            # One that is missing may lie between this snapshot and the one before.
            self._ranges = {}
        self._seq = snapshot.seq
        has_ranges = any(c.ranges is not None or c.added or c.removed for c in snapshot.consumers)
        if not has_ranges and self._ranges.keys() != {consumer.consumer for consumer in snapshot.consumers}:
            return snapshot
        consumers = tuple(
            consumer._replace(ranges=consumer.ranges_after(self._ranges.get(consumer.consumer)))
            if consumer.ranges is None
            else consumer
            for consumer in snapshot.consumers
        )
        # A consumer that is not listed is gone, and returns with another number.
        self._ranges = {consumer.consumer: consumer.ranges for consumer in consumers if consumer.ranges is not None}
        return snapshot._replace(consumers=consumers)
