"""What the broker reports of itself, held against the reconstruction, and taken in where the trace shows less."""

from collections.abc import Mapping, Set

from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Position, Snapshot
from dispatch_audit.pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison, Moment
from dispatch_audit.pipeline.replay.subscription.result import Surplus
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges

Ranges = Mapping[int, frozenset[tuple[int, int]]]


class SnapshotCheck:
    """The snapshots of one subscription, each bracketed by two moments of the replay.

    Attributes:
        comparison: where broker and reconstruction agreed, and where they did not.
        blocked_attempts: how often the broker says that draining hashes blocked a dispatch.
        joined_at: the broker's read position when a consumer joined, by the trace's number.
        surpluses: by how much the broker counts more unacknowledged messages than the reconstruction.
        listed: the consumers that a snapshot lists.
    """

    def __init__(self, dispatcher: Dispatcher, lazy_return: bool) -> None:
        self.comparison = Comparison(dispatcher.consumers.of, lazy_return)
        self.blocked_attempts = BlockedAttempts()
        self.joined_at: dict[int, Position] = {}
        self.surpluses: list[Surplus] = []
        self.listed: set[int] = set()
        self._begun: dict[int, Moment] = {}

    def begin(self, snapshot: Snapshot, dispatcher: Dispatcher, ranges: Ranges) -> None:
        """The broker took the snapshot here or later."""
        self._begun[snapshot.seq] = Moment(dispatcher.reconstruct(snapshot), ranges)

    def began_with(self, snapshot: Snapshot) -> Ranges:
        """The ranges that were in force where the snapshot begins."""
        return self._begun[snapshot.seq].ranges

    def assume(self, snapshot: Snapshot, ranges: Ranges) -> None:
        """These ranges were in force where the snapshot begins, as the snapshot itself has shown."""
        self._begun[snapshot.seq] = self._begun[snapshot.seq]._replace(ranges=ranges)

    def end(self, snapshot: Snapshot, dispatcher: Dispatcher, ranges: Ranges) -> tuple[Moment, Moment]:
        """The broker took the snapshot before this: returns the two moments between which it did."""
        self.listed |= {consumer.consumer for consumer in snapshot.consumers}
        return self._begun.pop(snapshot.seq), Moment(dispatcher.reconstruct(snapshot), ranges)

    def compare(
        self,
        snapshot: Snapshot,
        moments: tuple[Moment, Moment],
        at: TracePoint,
        dispatcher: Dispatcher,
        doubts: UndecidedRanges,
        one_sided: OneSidedRecording,
    ) -> None:
        """Compares a snapshot with what may have been at either moment, and takes in what only it shows."""
        before, after = moments
        self.comparison.compare(snapshot, before, after, dispatcher.drains, doubts, one_sided.about(snapshot))
        dispatcher.apply_snapshot(snapshot, at)
        self.blocked_attempts.note(snapshot, dispatcher.consumers.of)
        for consumer in snapshot.consumers:
            if consumer.joined_at is not None:
                self.joined_at.setdefault(consumer.consumer, consumer.joined_at)
            index = dispatcher.consumers.of.get(consumer.consumer)
            if index is not None and consumer.unacked is not None:
                held = before.rebuilt.unacked[index]
                if held == after.rebuilt.unacked[index] and held.least == held.most:
                    bracket = (snapshot.seq, snapshot.seq_begin, snapshot.seq_end)
                    self.surpluses.append(Surplus(*bracket, index, consumer.unacked - held.most, snapshot.ts_us))

    def forget(self, reported_seq: int, recent_us: int, draining: Set[tuple[int, int]]) -> None:
        """Drops what was reported, but for what explains what is open.

        Args:
            reported_seq: up to which row everything was reported.
            recent_us: what is newer explains what comes.
            draining: consumer index and hash of the draining that goes on.
        """
        self.comparison.forget(reported_seq)
        self.blocked_attempts.forget(recent_us, draining)
        newest = {surplus.consumer: surplus for surplus in self.surpluses if surplus.ts_us <= recent_us}
        self.surpluses = [s for s in self.surpluses if s.ts_us > recent_us or s is newest[s.consumer]]
