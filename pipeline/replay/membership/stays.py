"""For which time each consumer of a subscription was connected, also where joins and leaves are missing in the trace.

A snapshot lists all connected consumers with their ranges. If nobody joins or leaves while it is taken, it shows the
whole assignment, whatever led to it. How consumers joined before decides nothing that is judged later: entries are
judged from the next publish on (`subscription/cold_start.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.timeline.brackets import Brackets
from dispatch_audit.pipeline.replay.timeline.snapshot_views import view_of


@checkpointed("stay")
@dataclass
class Stay:
    """The time for which one consumer was connected."""

    row: MembershipEvent  # the first row of its join; where that is missing, its values in the snapshot that showed it
    # Where its join took effect; None: its row is missing, or it has not taken effect yet.
    joined: TracePoint | None = None
    left: TracePoint | None = None  # where its leave took effect
    leave_reason: str = ""  # the reason that its leave, or the reset that closed it, gives
    unseen: bool = False  # whether its join is missing, and `joined` is where a snapshot showed it

    def is_there(self, seq: int) -> bool:
        """Whether it is connected at a row; changes take effect after the row of their point."""
        return self.joined is not None and self.joined.seq < seq and (self.left is None or seq <= self.left.seq)


KINDS_MAX: Final = 1_000


@checkpointed("refused_joins")
@dataclass(eq=False, slots=True)
class RefusedJoins:
    """The joins that the broker refused: they have no consumer, change nothing here, and are facts about clients."""

    total: int = 0  # how many there were
    # Of each name and reason the last row, and how many there were; those beyond `KINDS_MAX` are left out.
    kinds: dict[tuple[str, str], tuple[MembershipEvent, int]] = field(default_factory=dict)

    def note(self, row: MembershipEvent) -> None:
        """Counts a join without a consumer number."""
        self.total += 1
        kind = (row.name, row.reason)
        if kind in self.kinds or len(self.kinds) < KINDS_MAX:
            _, before = self.kinds.get(kind, (row, 0))
            self.kinds[kind] = (row, before + 1)


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
