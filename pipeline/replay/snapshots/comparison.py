"""Compares the broker's snapshots with the reconstruction, and checks their counters.

A snapshot was taken at some moment between two rows, its bracket (TRACE_FORMAT, `seq_begin`, `seq_end`). It disagrees
(`assignment_mismatch`, `draining_mismatch`) only if no moment of the bracket explains it.

Unacknowledged messages are never below zero. The permits of a consumer may be, because the broker sends whole batches
(contract 4.14), but not if the consumer was sent single messages only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.hash_ranges import HashRanges, covers, symmetric_difference, union
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer, RangesOfOne, report_agrees
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.snapshots.reconstruction import NONE, Estimate, Reconstruction
from dispatch_audit.pipeline.replay.state.index import ConsumerIndex
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges

_ALONE = (
    "one consumer alone owns every hash under each selector, so the ranges show that the broker or the recorder writes "
    "them as another selector does, and not that another consumer owns anything"
)
_LAST_SLOT = 65_535
# The most mismatches, and impossible counters, that are kept with their details; the others are only counted.
_KEPT_MAX = 10_000


CounterName = Literal["unacked_messages", "available_permits"]


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


class Bracketed(NamedTuple):
    """A snapshot, and what the trace shows of both moments of its bracket."""

    snapshot: Snapshot
    before: Moment
    after: Moment
    doubts: UndecidedRanges  # the hashes with undecided owners
    drains: bool  # whether hashes drain, and rows show which
    vague: str = ""  # why the trace does not show the pending entries at that moment, as a clause; empty: it does


@checkpointed("comparison")
@dataclass(eq=False, slots=True)
class Comparison:
    """Compares the snapshots of one subscription, in their order."""

    config: ReplayConfig
    compared: Counter[str] = field(default_factory=Counter)  # the number of comparisons, by the value compared
    agreed: Counter[str] = field(default_factory=Counter)  # the number of these in which the broker agreed
    beyond: Counter[str] = field(default_factory=Counter)  # the number of mismatches that were not kept, by rule
    mismatches: list[Mismatch] = field(default_factory=list)  # the first mismatches, up to the limit

    @property
    def of_all_hashes(self) -> bool:
        """Whether there are rows of all hashes, so that numbers of the broker can be compared."""
        return self.config.sample.is_all

    def compare(self, seen: Bracketed, known: Iterable[tuple[int, ConsumerSnapshot]]) -> None:
        """Compares a snapshot with both moments; `known` are its consumers that rows have named, by their indexes."""
        snapshot, before, after = seen[:3]
        if snapshot.in_replay is not None and self.of_all_hashes:
            in_replay = before.rebuilt.in_replay.widened(after.rebuilt.in_replay)
            self._note("msg_in_replay", in_replay.admits(snapshot.in_replay))
        for index, consumer in known:
            self._compare_ranges(seen, consumer, index)
            unreleased = 0
            if consumer.unacked is not None and self.of_all_hashes:
                held = before.rebuilt.unacked[index].widened(after.rebuilt.unacked[index])
                self._note("unacked_messages", held.admits(consumer.unacked))
                # Until the cursor deletes an acknowledged entry, it counts as unacknowledged and as pending.
                unreleased = consumer.unacked - held.most if self.config.profile.acks_release_late else 0
            if seen.drains and consumer.draining is not None:
                self._compare_draining(seen, consumer.draining, index, unreleased)

    def doubt(self, because: str) -> None:
        """Notes, as a clause, why the owners of all hashes were undecided in all snapshots so far."""
        self.mismatches = [m._replace(undecided=m.undecided or because) for m in self.mismatches]

    def forget(self, reported_seq: int) -> None:
        """Drops the mismatches up to the row `reported_seq`, and all counts."""
        for counts in (self.compared, self.agreed, self.beyond):
            counts.clear()
        self.mismatches = [m for m in self.mismatches if m.snapshot.seq > reported_seq]

    def _note(self, value: str, agrees: bool) -> None:
        self.compared[value] += 1
        self.agreed[value] += agrees

    def _compare_ranges(self, seen: Bracketed, consumer: ConsumerSnapshot, index: int) -> None:
        number, reported = consumer.consumer, consumer.ranges
        if reported is None:
            return
        agreed = any(report_agrees(reported, number, moment.ranges) for moment in (seen.before, seen.after))
        self._note("assignment_mismatch", agreed)
        if not agreed:
            rebuilt = seen.after.ranges.get(number, frozenset())
            missing, surplus = (
                tuple(f"[{start}, {end}]" for start, end in sorted(ranges))
                for ranges in (reported - rebuilt, rebuilt - reported)
            )
            differing = symmetric_difference(reported, rebuilt)
            undecided = _ALONE if _owns_all(seen.snapshot, reported) else _undecided_ranges(seen, differing)
            self._report(Mismatch("assignment_mismatch", seen.snapshot, index, undecided, missing, surplus))

    def _compare_draining(self, seen: Bracketed, draining: Mapping[int, int], index: int, unreleased: int) -> None:
        missing: list[str] = []
        surplus: list[str] = []
        reasons: list[str] = []
        moments = seen.before.rebuilt, seen.after.rebuilt
        lazy_return = self.config.profile.draining_return == "lazy"
        rebuilt = {key[1] for moment in moments for key in moment.draining if key[0] == index}
        listed = np.array(sorted(rebuilt | set(draining)), dtype=np.int64)
        for sticky_hash in listed[self.config.sample.has(listed)].tolist():
            reported = draining.get(sticky_hash, 0)
            drained = [_drained(moment, index, sticky_hash, lazy_return) for moment in moments]
            admitted = drained[0].widened(drained[1])
            if 0 < reported - admitted.most <= unreleased:
                unreleased -= reported - admitted.most
            elif not admitted.admits(reported):
                (missing if reported > drained[1].most else surplus).append(
                    f"{sticky_hash} ({entries(reported)}, expected {_range(drained[1])})"
                )
                # A hash that began to drain while its owner was undecided may drain for long.
                doubt = seen.doubts.about(sticky_hash, 0, seen.snapshot.seq)
                reasons.append(seen.vague if doubt is None else doubt.because)
        self._note("draining_mismatch", not missing and not surplus)
        if missing or surplus:
            because = reasons[0] if all(reasons) else ""
            found = Mismatch("draining_mismatch", seen.snapshot, index, because, tuple(missing), tuple(surplus))
            self._report(found)

    def _report(self, found: Mismatch) -> None:
        if len(self.mismatches) < _KEPT_MAX:
            self.mismatches.append(found)
        else:
            self.beyond[found.rule] += 1


def _undecided_ranges(seen: Bracketed, differing: HashRanges) -> str:
    """Why the owners of all differing hashes are undecided; empty: some are known."""
    concerning = seen.doubts.between(seen.snapshot.seq_begin, seen.snapshot.seq)
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


@checkpointed("impossible_counter")
class ImpossibleCounter(NamedTuple):
    """A counter that is below zero in a snapshot and was not in the previous one."""

    snapshot: Snapshot  # the snapshot
    consumer: int  # the index of the consumer in the state; NOBODY: a counter of the subscription
    counter: CounterName  # its name in TRACE_FORMAT
    value: int  # its value
    of_consumers: int  # for a counter of the subscription, the sum of those of its consumers; 0 for others
    after_leave: bool  # whether a consumer had left before


@checkpointed("impossible_counters")
@dataclass(eq=False, slots=True)
class ImpossibleCounters:
    """Checks the counters of one subscription in its snapshots, in their order."""

    checked: int = 0  # the number of counters checked
    found: list[ImpossibleCounter] = field(default_factory=list)  # the first impossible counters, up to the limit
    beyond: int = 0  # the number of impossible counters that were not kept
    _below: set[tuple[int, CounterName]] = field(default_factory=set)
    _left: bool = False

    def look(self, snapshot: Snapshot, consumers: ConsumerIndex, sent_batches: Sequence[bool]) -> None:
        """Checks one snapshot; `sent_batches` says by index whether a consumer was sent a batch of several messages."""
        known = consumers.known_in(snapshot)
        self._left = self._left or len(known) < len(consumers)
        for index, consumer in known:
            self._note(snapshot, index, "unacked_messages", consumer.unacked)
            if not sent_batches[index]:
                self._note(snapshot, index, "available_permits", consumer.permits)
        of_consumers = sum(consumer.unacked or 0 for consumer in snapshot.consumers)
        self._note(snapshot, NOBODY, "unacked_messages", snapshot.unacked, of_consumers)

    def forget(self, reported_seq: int) -> None:
        """Drops the counters found up to the row `reported_seq`, and all counts."""
        self.checked = self.beyond = 0
        self.found = [counter for counter in self.found if counter.snapshot.seq > reported_seq]

    def _note(
        self, snapshot: Snapshot, index: int, counter: CounterName, value: int | None, of_consumers: int = 0
    ) -> None:
        if value is None:
            return
        self.checked += 1
        if value >= 0:
            self._below.discard((index, counter))
        elif (index, counter) not in self._below:
            self._below.add((index, counter))
            if len(self.found) < _KEPT_MAX:
                self.found.append(ImpossibleCounter(snapshot, index, counter, value, of_consumers, self._left))
            else:
                self.beyond += 1
