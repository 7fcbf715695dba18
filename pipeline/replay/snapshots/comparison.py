"""Compares the broker's snapshots with the reconstruction: `assignment_mismatch`, `draining_mismatch`.

A snapshot was taken at some moment between two rows, its bracket (TRACE_FORMAT, `seq_begin`, `seq_end`). It disagrees
only if no moment of the bracket explains it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.hash_ranges import HashRanges, covers, symmetric_difference, union
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer, RangesOfOne, report_agrees
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.snapshots.reconstruction import NONE, Estimate, Reconstruction
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges
from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

_ALONE = (
    "one consumer alone owns every hash under each selector, so the ranges show that the broker or the recorder writes "
    "them as another selector does, and not that another consumer owns anything"
)
_LAST_SLOT = 65_535
# The most mismatches that are kept with their details; the others are only counted.
_KEPT_MAX = 10_000


@checkpointed("moment")
class Moment(NamedTuple):
    """The reconstruction at one side of the bracket; `ranges` by the trace's number of the consumer."""

    rebuilt: Reconstruction
    ranges: RangesByConsumer


@checkpointed("mismatch")
class Mismatch(NamedTuple):
    """A consumer for which a snapshot and the reconstruction disagree."""

    rule: str  # `assignment_mismatch` or `draining_mismatch`
    snapshot: Snapshot  # the snapshot
    consumer: int  # the index of the consumer in the state
    undecided: str  # why the owners of all differing hashes are undecided; empty: some are known
    # Ranges, or hashes with their entries, that the broker reports and the trace does not show.
    missing: tuple[str, ...]
    # Ranges, or hashes with their entries, that the trace shows and the broker does not report.
    surplus: tuple[str, ...]


@checkpointed("comparison")
class Comparison:
    """Compares the snapshots of one subscription, in their order."""

    __slots__ = ("_acks_release_late", "_lazy_return", "_one_in", "_salt", "agreed", "beyond", "compared", "mismatches")

    def __init__(self, lazy_return: bool, acks_release_late: bool, sample: HashSample = EVERY_HASH) -> None:
        """Takes whether `Profile.draining_return` is lazy, `Profile.acks_release_late`, and whose rows there are."""
        self.compared: Counter[str] = Counter()  # the number of comparisons, by the value compared
        self.agreed: Counter[str] = Counter()  # the number of these in which the broker agreed
        self.beyond: Counter[str] = Counter()  # the number of mismatches that were not kept, by rule
        self.mismatches: list[Mismatch] = []  # the first mismatches, up to the limit
        self._lazy_return, self._acks_release_late = lazy_return, acks_release_late
        self._one_in, self._salt = sample

    def anew(self) -> "Comparison":
        """An empty comparison with the same rules."""
        return Comparison(self._lazy_return, self._acks_release_late, self._sample)

    @property
    def _sample(self) -> HashSample:
        return HashSample(self._one_in, self._salt)

    @property
    def of_all_hashes(self) -> bool:
        """Whether there are rows of all hashes, so that numbers of the broker can be compared."""
        return self._sample.is_all

    def compare(
        self,
        snapshot: Snapshot,
        known: Iterable[tuple[int, ConsumerSnapshot]],
        before: Moment,
        after: Moment,
        drains: bool,
        doubts: UndecidedRanges,
        vague: str = "",
    ) -> None:
        """Compares one snapshot with the earliest and the latest moment of its bracket.

        `known` are its consumers that rows have named, with their indexes; `doubts` are the hashes with undecided
        owners. `vague` says as a clause why the trace does not show the pending entries at that moment; empty: it does.
        """
        if snapshot.in_replay is not None and self.of_all_hashes:
            in_replay = before.rebuilt.in_replay.widened(after.rebuilt.in_replay)
            self._note("msg_in_replay", in_replay.admits(snapshot.in_replay))
        for index, consumer in known:
            self._compare_ranges(snapshot, consumer, index, before, after, doubts)
            unreleased = 0
            if consumer.unacked is not None and self.of_all_hashes:
                held = before.rebuilt.unacked[index].widened(after.rebuilt.unacked[index])
                self._note("unacked_messages", held.admits(consumer.unacked))
                # Until the cursor deletes an acknowledged entry, it counts as unacknowledged and as pending.
                unreleased = consumer.unacked - held.most if self._acks_release_late else 0
            if drains and consumer.draining is not None:
                moments = before.rebuilt, after.rebuilt
                self._compare_draining(snapshot, consumer, index, moments, unreleased, doubts, vague)

    def doubt(self, because: str) -> None:
        """Notes, as a clause, why the owners of all hashes were undecided in all snapshots so far."""
        self.mismatches = [m._replace(undecided=m.undecided or because) for m in self.mismatches]

    def forget(self, reported_seq: int) -> None:
        """Drops the mismatches up to the row `reported_seq`, and all counts."""
        self.compared.clear()
        self.agreed.clear()
        self.beyond.clear()
        self.mismatches = [m for m in self.mismatches if m.snapshot.seq > reported_seq]

    def _note(self, value: str, agrees: bool) -> None:
        self.compared[value] += 1
        self.agreed[value] += agrees

    def _compare_ranges(
        self,
        snapshot: Snapshot,
        consumer: ConsumerSnapshot,
        index: int,
        before: Moment,
        after: Moment,
        doubts: UndecidedRanges,
    ) -> None:
        number = consumer.consumer
        reported = consumer.ranges
        if reported is None:
            return
        agreed = any(report_agrees(reported, number, moment.ranges) for moment in (before, after))
        self._note("assignment_mismatch", agreed)
        if not agreed:
            rebuilt = after.ranges.get(number, frozenset())
            missing = [f"[{start}, {end}]" for start, end in sorted(reported - rebuilt)]
            surplus = [f"[{start}, {end}]" for start, end in sorted(rebuilt - reported)]
            differing = symmetric_difference(reported, rebuilt)
            undecided = _ALONE if _owns_all(snapshot, reported) else _undecided_ranges(snapshot, differing, doubts)
            self._report("assignment_mismatch", snapshot, index, undecided, missing, surplus)

    def _compare_draining(
        self,
        snapshot: Snapshot,
        consumer: ConsumerSnapshot,
        index: int,
        moments: tuple[Reconstruction, Reconstruction],
        unreleased: int,
        doubts: UndecidedRanges,
        vague: str,
    ) -> None:
        assert consumer.draining is not None
        missing: list[str] = []
        surplus: list[str] = []
        reasons: list[str] = []
        rebuilt = {key[1] for moment in moments for key in moment.draining if key[0] == index}
        listed = np.array(sorted(rebuilt | set(consumer.draining)), dtype=np.int64)
        for sticky_hash in listed[self._sample.has(listed)].tolist():
            reported = consumer.draining.get(sticky_hash, 0)
            drained = [_drained(moment, index, sticky_hash, self._lazy_return) for moment in moments]
            admitted = drained[0].widened(drained[1])
            if 0 < reported - admitted.most <= unreleased:
                unreleased -= reported - admitted.most
            elif not admitted.admits(reported):
                (missing if reported > drained[1].most else surplus).append(
                    f"{sticky_hash} ({entries(reported)}, expected {_range(drained[1])})"
                )
                # A hash that began to drain while its owner was undecided may drain for long.
                doubt = doubts.about(sticky_hash, 0, snapshot.seq)
                reasons.append(vague if doubt is None else doubt.because)
        self._note("draining_mismatch", not missing and not surplus)
        if missing or surplus:
            self._report("draining_mismatch", snapshot, index, reasons[0] if all(reasons) else "", missing, surplus)

    def _report(
        self, rule: str, snapshot: Snapshot, index: int, undecided: str, missing: Sequence[str], surplus: Sequence[str]
    ) -> None:
        if len(self.mismatches) < _KEPT_MAX:
            self.mismatches.append(Mismatch(rule, snapshot, index, undecided, tuple(missing), tuple(surplus)))
        else:
            self.beyond[rule] += 1


def _undecided_ranges(snapshot: Snapshot, differing: HashRanges, doubts: UndecidedRanges) -> str:
    """Why the owners of all differing hashes are undecided; empty: some are known."""
    concerning = doubts.between(snapshot.seq_begin, snapshot.seq)
    undecided = union(both for doubt in concerning for both in doubt.ranges)
    return concerning[0].because if concerning and covers(undecided, differing) else ""


def _owns_all(snapshot: Snapshot, reported: RangesOfOne) -> bool:
    """Whether the only consumer of a snapshot owns every hash, from 0 or 1 to the last slot or beyond."""
    if len(snapshot.consumers) > 1 or not reported:
        return False
    starts, ends = zip(*sorted(reported), strict=True)
    gapless = all(start <= end + 1 for start, end in zip(starts[1:], ends, strict=False))
    return starts[0] <= 1 and gapless and ends[-1] >= _LAST_SLOT


def _range(bounds: Estimate) -> str:
    return str(bounds.least) if bounds.least == bounds.most else f"{bounds.least} to {bounds.most}"


def _drained(moment: Reconstruction, index: int, sticky_hash: int, lazy_return: bool) -> Estimate:
    """The bounds of the number of entries that the broker lists for a draining hash of a consumer."""
    key = (index, sticky_hash)
    least, most = moment.draining.get(key, NONE)
    # The last acknowledgements may be in progress; with a lazy return a hash stays listed until the next attempt (3.4).
    pending = moment.pending.get(key, NONE)
    return Estimate(least, most + (pending.most if lazy_return or pending.least == 0 else 0))
