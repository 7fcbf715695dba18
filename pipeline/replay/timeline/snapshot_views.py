"""The assignment that snapshots of the broker report: the consumers and their ranges, between two rows.

A snapshot may leave out what equals the snapshot before (TRACE_FORMAT, `consumers_as_before` and `key_hash_ranges`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import NOT_SAID, ConsumerSnapshot, Snapshot


@checkpointed("view")
class View(NamedTuple):
    """The assignment in one snapshot."""

    snapshot: int  # the seq of its row
    since: TracePoint  # the point after which it was taken
    until: TracePoint  # the point before or at which it was taken
    listed: frozenset[int]  # the consumers that it lists
    # Of each consumer; None if the ranges of some are unknown.
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


@checkpointed("former_consumers")
@dataclass(eq=False, slots=True)
class FormerConsumers:
    """Fills in what snapshots leave out because it is as in the snapshot before: consumers, and ranges of consumers.

    Two threads of older recorders took snapshots at about the same time and wrote them in the other order, and left out
    nothing but ranges. So ranges of such snapshots are filled in only for the same set of consumers: a join or leave in
    between changes the ranges.
    """

    _consumers: dict[int, ConsumerSnapshot] = field(default_factory=dict)
    _seq: int = -1
    _lost_until: int = -1

    def lose(self, until_seq: int) -> None:
        """Notes that snapshots are missing between the last one and a row, and perhaps others that follow before it."""
        self._lost_until = max(self._lost_until, until_seq)

    def filled(self, snapshot: Snapshot) -> Snapshot:
        """Takes the next snapshot; returns it with what it leaves out, as far as that is known."""
        if self._lost_until > self._seq:
            # One that is missing may lie between this snapshot and the one before.
            self._consumers = {}
        self._seq = snapshot.seq
        former, written = self._consumers, {consumer.consumer: consumer for consumer in snapshot.consumers}
        refers = snapshot.as_before or any(one.ranges is not None or one.changed for one in snapshot.consumers)
        if not refers and former.keys() != written.keys():
            return snapshot
        for number, consumer in written.items():
            if consumer.ranges is None:
                before = former.get(number)
                ranges = consumer.ranges_after(None if before is None else before.ranges)
                written[number] = consumer._replace(ranges=ranges)
        as_before = {one.consumer: one.onto(former.get(one.consumer, NOT_SAID)) for one in snapshot.as_before}
        # A consumer that is not listed is gone, and returns with another number.
        self._consumers = as_before | written
        return snapshot._replace(consumers=tuple(self._consumers.values()), as_before=())
