"""Compares the broker's snapshots with the reconstruction, and takes values from them that the trace does not show."""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import ConsumerSnapshot, Position, Snapshot
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.membership.hash_owners import HashOwners
from dispatch_audit.pipeline.replay.snapshots.comparison import Bracketed, Comparison, ImpossibleCounters, Moment
from dispatch_audit.pipeline.replay.snapshots.reconstruction import reconstruct
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording

_NO_KEYS = "the trace has no key of a dispatch, so it does not show which hashes were held"
_PASSED = (
    "an administrator had moved mark-delete, and no read since in which the broker releases what that passed is shown"
)


@checkpointed("surplus")
class Surplus(NamedTuple):
    """The surplus in a snapshot's count of unacknowledged messages, when the trace shows the exact number."""

    seq: int  # the row of the snapshot
    seq_begin: int  # the rows up to this one come before the snapshot
    seq_end: int  # the rows after this one come after it
    consumer: int  # the index of the consumer
    # The broker's count of unacknowledged messages minus those that the consumer holds; F10 leaves a surplus.
    messages: int
    ts_us: int  # the time of the snapshot
    redelivered_us: int = 0  # when the consumer last asked for all that it held; 0: it never did


@checkpointed("blocked_attempts")
@dataclass(eq=False, slots=True)
class BlockedAttempts:
    """The last count of each draining episode, by holder and hash.

    A hash that the previous snapshot did not list, or whose count fell, has begun to drain again. Memory grows only
    with such episodes.
    """

    _counts: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    _listed: dict[int, frozenset[int]] = field(default_factory=dict)

    def note(self, snapshot: Snapshot, index: int, consumer: ConsumerSnapshot) -> None:
        """Takes one consumer of the next snapshot, and its index in the state."""
        before = self._listed.get(index, frozenset())
        self._listed[index] = frozenset(consumer.refused)
        for sticky_hash, attempts in consumer.refused.items():
            counts = self._counts[index, sticky_hash]
            if counts and sticky_hash in before and counts[-1][1] <= attempts:
                counts.pop()
            counts.append((snapshot.seq_begin, attempts, snapshot.ts_us))

    def forget(self, before_us: int, draining: Set[tuple[int, int]]) -> None:
        """Drops the counts up to `before_us`, except those of the holders and hashes in `draining`."""
        over = [key for key, counts in self._counts.items() if counts[-1][2] <= before_us and key not in draining]
        for holder_and_hash in over:
            del self._counts[holder_and_hash]

    def within(self, holder: int, sticky_hash: int, from_seq: int, to_seq: int) -> int | None:
        """The highest count in snapshots between two rows; None: there is none."""
        counts = self._counts.get((holder, sticky_hash), [])
        return max((attempts for seq, attempts, _ in counts if from_seq <= seq <= to_seq), default=None)


@checkpointed("snapshot_check")
@dataclass(eq=False, slots=True)
class SnapshotCheck:
    """The snapshots of one subscription, each bracketed by two moments of the replay."""

    comparison: Comparison  # the agreements and mismatches between broker and reconstruction
    # How often draining hashes blocked a dispatch, as the broker reports.
    blocked_attempts: BlockedAttempts = field(default_factory=BlockedAttempts)
    # Impossible values of the broker's counters.
    counters: ImpossibleCounters = field(default_factory=ImpossibleCounters)
    # The broker's read position when a consumer joined, by the trace's number.
    joined_at: dict[int, Position] = field(default_factory=dict)
    # By how much the broker counts more unacknowledged messages than the reconstruction.
    surpluses: list[Surplus] = field(default_factory=list)
    listed: set[int] = field(default_factory=set)  # the consumers that a snapshot lists
    begun: dict[int, Moment] = field(default_factory=dict)  # the earliest moment of open snapshots, by their seq

    def begin(self, snapshot: Snapshot, at: TracePoint, dispatcher: Dispatcher, ranges: RangesByConsumer) -> None:
        """Notes the state at the earliest moment at which the broker took the snapshot."""
        self.begun[snapshot.seq] = _moment(snapshot, at, dispatcher, ranges)

    def end(self, snapshot: Snapshot, at: TracePoint, dispatcher: Dispatcher, owners: HashOwners) -> Bracketed:
        """The snapshot with the two moments between which the broker took it; the later one is now."""
        self.listed |= {consumer.consumer for consumer in snapshot.consumers}
        largest = dispatcher.seen.limits.consumers.view(np.ndarray)["largest"]
        # Of a sample, batches may be among the entries of other hashes.
        sent_batches = ((largest > 1) | (not self.comparison.of_all_hashes)).tolist()
        self.counters.look(snapshot, dispatcher.consumers, sent_batches)
        # Mark-delete waits for entries of all hashes, so a sample does not show what drains once it releases entries
        # that were acknowledged piecewise.
        drains = dispatcher.drains and not common_of(dispatcher.seen)["released_unseen"]
        now = _moment(snapshot, at, dispatcher, owners.epochs.ranges)
        return Bracketed(snapshot, self.begun.pop(snapshot.seq), now, owners.doubts, drains)

    def agrees(self, seen: Bracketed, dispatcher: Dispatcher) -> bool:
        """Whether a snapshot agrees with the reconstruction; nothing is noted."""
        trial = Comparison(self.comparison.config)
        trial.compare(seen, dispatcher.consumers.known_in(seen.snapshot))
        return not trial.mismatches

    def compare(self, seen: Bracketed, at: TracePoint, dispatcher: Dispatcher, one_sided: OneSidedRecording) -> None:
        """Compares a snapshot with the reconstruction at both moments, and takes the values that only it shows."""
        snapshot, before, after = seen[:3]
        sent = dispatcher.traffic
        keyless = _NO_KEYS if sent.unkeyed and sent.unkeyed == sent.dispatched else ""
        vague = one_sided.about(snapshot) or (_PASSED if before.rebuilt.passed else keyless)
        known = dispatcher.consumers.known_in(snapshot)
        self.comparison.compare(seen._replace(vague=vague), known)
        dispatcher.apply_snapshot(snapshot, at)
        for consumer in snapshot.consumers:
            if consumer.joined_at is not None:
                self.joined_at.setdefault(consumer.consumer, consumer.joined_at)
        for index, consumer in known:
            self.blocked_attempts.note(snapshot, index, consumer)
            if consumer.unacked is not None and self.comparison.of_all_hashes and not one_sided.of_traffic:
                held = before.rebuilt.unacked[index]
                if held == after.rebuilt.unacked[index] and held.least == held.most:
                    bracket = (snapshot.seq, snapshot.seq_begin, snapshot.seq_end)
                    redelivered_us = int(dispatcher.seen.consumers.view(np.ndarray)["redeliver_ts"][index])
                    messages = consumer.unacked - held.most
                    self.surpluses.append(Surplus(*bracket, index, messages, snapshot.ts_us, redelivered_us))

    def forget(self, reported_seq: int, recent_us: int, draining: Set[tuple[int, int]]) -> None:
        """Drops what was reported up to a row, except what is newer than `recent_us` or concerns `draining` hashes.

        These are given by the index of their holder and the hash.
        """
        self.comparison.forget(reported_seq)
        self.blocked_attempts.forget(recent_us, draining)
        self.counters.forget(reported_seq)
        newest = {surplus.consumer: surplus for surplus in self.surpluses if surplus.ts_us <= recent_us}
        self.surpluses = [s for s in self.surpluses if s.ts_us > recent_us or s is newest[s.consumer]]


def _moment(snapshot: Snapshot, at: TracePoint, dispatcher: Dispatcher, ranges: RangesByConsumer) -> Moment:
    """The reconstruction at a point, for a comparison with a snapshot that was taken by then."""
    policy = dispatcher.policy
    returned_us = at.ts_us - SNAPSHOT_LAG_US - policy.skew_us
    return Moment(reconstruct(dispatcher.seen, snapshot, returned_us, policy.mark_delete_releases), ranges)
