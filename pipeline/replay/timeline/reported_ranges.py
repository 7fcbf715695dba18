"""The assignment as snapshots of the broker show it: who was in, with which ranges, between two rows.

A snapshot may leave out ranges that are as in the one before (TRACE_FORMAT, `key_hash_ranges`).
"""

from typing import NamedTuple

from pipeline.assignment.ranges.reported_ranges import ReportedRanges
from pipeline.replay.packing.membership_rows import TracePoint
from pipeline.replay.packing.snapshot import Snapshot


class View(NamedTuple):
    """What one snapshot shows of the assignment.

    Attributes:
        snapshot: seq of its row.
        since: it was taken behind this place,
        until: and not behind any later row than this one.
        listed: consumers that it lists.
        reported: the ranges of all of them; None if it does not say those of each.
    """

    snapshot: int
    since: TracePoint
    until: TracePoint
    listed: frozenset[int]
    reported: ReportedRanges | None


def view_of(snapshot: Snapshot, since: TracePoint, until: TracePoint) -> View:
    """What a snapshot shows that was taken between two places and whose ranges are filled in."""
    listed = frozenset(consumer.consumer for consumer in snapshot.consumers)
    complete = bool(listed) and all(consumer.ranges for consumer in snapshot.consumers)
    ranges = ((*both, consumer.consumer) for consumer in snapshot.consumers for both in consumer.ranges or ())
    return View(snapshot.seq, since, until, listed, ReportedRanges(ranges) if complete else None)


class LatestRanges:
    """Fills in the ranges that snapshots leave out because they are as in the snapshot before, in the order of rows.

    Two threads of a recorder may take snapshots at about the same time and write them the other way round. So ranges
    are filled in only for the consumers for whom they were said: a join or a leave in between changes them.
    """

    def __init__(self) -> None:
        """Starts in front of the first snapshot."""
        self._ranges: dict[int, frozenset[tuple[int, int]]] = {}

    def filled(self, snapshot: Snapshot) -> Snapshot:
        """The next snapshot, with the ranges that it leaves out, as far as they are known."""
        says_some = any(consumer.ranges is not None for consumer in snapshot.consumers)
        if not says_some and self._ranges.keys() != {consumer.consumer for consumer in snapshot.consumers}:
            return snapshot
        consumers = tuple(
            consumer._replace(ranges=self._ranges.get(consumer.consumer)) if consumer.ranges is None else consumer
            for consumer in snapshot.consumers
        )
        # Who is not listed is gone, and comes back under another number.
        self._ranges = {consumer.consumer: consumer.ranges for consumer in consumers if consumer.ranges is not None}
        return snapshot._replace(consumers=consumers)
