"""How far the hash ranges in snapshots are those of the selector by which a replay goes.

A selector that is not the broker's gives other ranges to nearly every consumer in every snapshot. A broker with a bug
reports other ranges for a consumer, or for some time, and those of the selector otherwise. With one consumer all
selectors of one hash range agree, so such a snapshot may contradict a selector, but never confirms it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot

Ranges = Mapping[int, frozenset[tuple[int, int]]]

# So many are enough to decide, and a trace without an answer must not fill the memory.
_KEPT_MAX: Final = 1_000


class ReportedAssignment(NamedTuple):
    """The assignment in one snapshot beside the one of the replay.

    Attributes:
        snapshot: the snapshot.
        consumers: how many consumers it lists, each with its ranges.
        differing: how many of them have other ranges in the replay.
    """

    snapshot: Snapshot
    consumers: int
    differing: int


class ReportedAssignments:
    """The first assignments that snapshots report, until one confirms the selector.

    Attributes:
        seen: in the order of the trace; none once the selector is confirmed.
        confirmed: whether the replay has given several consumers just the ranges that a snapshot reports.
    """

    def __init__(self) -> None:
        """Starts in front of the first snapshot."""
        self.seen: list[ReportedAssignment] = []
        self.confirmed = False

    def note(self, snapshot: Snapshot, in_force: Sequence[Ranges]) -> None:
        """Takes the next snapshot, and the ranges of the replay at both sides of its bracket."""
        if self.confirmed or len(self.seen) >= _KEPT_MAX:
            return
        reported = {consumer.consumer: consumer.ranges for consumer in snapshot.consumers if consumer.ranges}
        if not reported or len(reported) < len(snapshot.consumers):
            return
        # The assignment in force lists consumers that the snapshot does not know, or the other way round: the trace
        # does not tell the one of that moment.
        comparable = [ranges for ranges in in_force if ranges.keys() == reported.keys()]
        if not comparable:
            return
        differing = min(sum(reported[n] != ranges[n] for n in reported) for ranges in comparable)
        self.seen.append(ReportedAssignment(snapshot, len(reported), differing))
        if differing == 0 and len(reported) > 1:
            self.seen, self.confirmed = [], True
