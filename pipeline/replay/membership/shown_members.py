"""The consumers that a snapshot shows where joins and leaves are missing: before the first row, or in a gap.

A snapshot lists all connected consumers with their ranges. If nobody joins or leaves while it is taken, it shows the
whole assignment, whatever led to it. How consumers joined before decides nothing that is judged later: entries are
judged from the next publish on (`subscription/cold_start.py`).
"""

from collections.abc import Collection
from typing import NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.timeline.brackets import Brackets
from dispatch_audit.pipeline.replay.timeline.snapshot_views import view_of


class ShownMembers(NamedTuple):
    """The consumers of a subscription at one moment."""

    joined: list[MembershipEvent]  # those whose joins are missing, as `unseen_join` makes them
    gone: list[int]  # those whose leaves are missing
    reported: ReportedRanges  # the ranges of all that are connected


def unseen_join(snapshot: Snapshot, consumer: ConsumerSnapshot) -> MembershipEvent:
    """The join of a consumer that a snapshot lists, as far as the snapshot shows it."""
    sticky = bool(snapshot.sticky)
    return MembershipEvent(
        seq=snapshot.seq,
        ts_us=snapshot.ts_us,
        kind="join",
        late=False,
        consumer=consumer.consumer,
        name=consumer.name or "",
        sticky=sticky,
        out_of_order=snapshot.keeps_order is False,
        ranges=tuple(sorted(consumer.ranges or ())) if sticky else (),
        reason="",
    )


def shown_members(
    snapshot: Snapshot, at: TracePoint, connected: Collection[int], brackets: Brackets
) -> ShownMembers | None:
    """The consumers and ranges that a snapshot shows; it was taken before or at a point.

    Returns:
        None if somebody joined or left while it was taken, if rows contradict it, or if it does not show all ranges and
        names.
    """
    reported = view_of(snapshot, at, at).reported()
    if reported is None or brackets.placed_seq > snapshot.seq_begin:
        return None
    unseen = [consumer for consumer in snapshot.consumers if consumer.consumer not in connected]
    joined = brackets.joined if unseen else ()
    if not all(consumer.name and consumer.consumer in joined for consumer in unseen):
        return None
    listed = {consumer.consumer for consumer in snapshot.consumers}
    return ShownMembers(
        [unseen_join(snapshot, consumer) for consumer in unseen],
        [number for number in connected if number not in listed],
        reported,
    )
