"""How far snapshots of the broker agree with the selector and the dispatcher that the replay uses.

A selector that is not the broker's gives other ranges to nearly every consumer in every snapshot. A broker with a bug
reports other ranges for a consumer, or for some time, and those of the selector otherwise. With one consumer all
selectors of one hash range agree, so such a snapshot may contradict a selector, but never confirms it.

The two dispatchers report different values (contract 7): only that of recently joined consumers has
`readPositionWhenJoining`, and only the draining one lists draining hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot

# So many are enough to decide, and a trace without an answer must not fill the memory.
_KEPT_MAX: Final = 1_000


@checkpointed("reported_assignment")
class ReportedAssignment(NamedTuple):
    """The assignment in one snapshot beside the one of the replay."""

    snapshot: Snapshot  # the snapshot
    consumers: int  # how many consumers it lists, each with its ranges
    differing: int  # how many of them have other ranges in the replay
    of_other_dispatcher: bool  # whether it has values that only the other dispatcher reports
    # Whether the rows determine the ranges of the replay. At the beginning of a trace that does not begin with the
    # first join, consumers that joined and left before may have changed them.
    determined: bool

    @property
    def agrees(self) -> bool:
        """Whether the broker reports nothing else than the replay has."""
        return not self.differing and not self.of_other_dispatcher


@checkpointed("reported_assignments")
@dataclass(eq=False, slots=True)
class ReportedAssignments:
    """The first assignments that snapshots report, until one confirms the selector."""

    _drains: bool
    # In the order of the trace; none once the selector is confirmed.
    seen: list[ReportedAssignment] = field(default_factory=list)
    confirmed: bool = False  # whether a snapshot has shown the selector and the dispatcher of the replay

    def note(self, snapshot: Snapshot, in_force: Sequence[RangesByConsumer], determined: bool) -> None:
        """Takes the next snapshot, the ranges of the replay on both sides of it, and whether rows determine these."""
        if self.confirmed or len(self.seen) >= _KEPT_MAX:
            return
        reported = {consumer.consumer: consumer.ranges for consumer in snapshot.consumers if consumer.ranges}
        if not reported or len(reported) < len(snapshot.consumers):
            return
        # If neither side lists the consumers of the snapshot, the trace does not show the assignment of that moment.
        comparable = [ranges for ranges in in_force if ranges.keys() == reported.keys()]
        if not comparable:
            return
        differing = min(sum(reported[n] != ranges[n] for n in reported) for ranges in comparable)
        joining = any(consumer.joined_at is not None for consumer in snapshot.consumers)
        draining = any(consumer.draining for consumer in snapshot.consumers)
        other_dispatcher = joining if self._drains else draining
        seen = ReportedAssignment(snapshot, len(reported), differing, other_dispatcher, determined)
        self.seen.append(seen)
        # A recorder may leave out what the dispatcher of recently joined consumers reports, so only its values show it.
        if seen.agrees and len(reported) > 1 and (self._drains or joining):
            self.seen, self.confirmed = [], True
