"""The broker's own snapshots against what the trace says: `assignment_mismatch`, `draining_mismatch`.

A snapshot was taken at some moment between two rows (TRACE_FORMAT, `seq_begin`, `seq_end`). It disagrees only where no
moment of that bracket explains it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.assignment.ranges.hash_ranges import HashRanges, covers, symmetric_difference, union
from pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from pipeline.replay.snapshots.reconstruction import NONE, Bounds, Reconstruction
from pipeline.replay.timeline.undecided_ranges import UndecidedRanges

RangesOfOne = frozenset[tuple[int, int]]


# Mismatches that are kept with what differs; all are counted.
_KEPT_MAX = 10_000


class Moment(NamedTuple):
    """What the trace says at one side of the bracket; `ranges` by the trace's number of the consumer."""

    rebuilt: Reconstruction
    ranges: Mapping[int, RangesOfOne]


class Mismatch(NamedTuple):
    """One consumer of one snapshot that disagrees.

    Attributes:
        rule: `assignment_mismatch` or `draining_mismatch`.
        snapshot: the snapshot.
        consumer: place of the consumer in the state.
        undecided: why the owners of all hashes that differ are open; empty: of some of them they are known.
        missing: ranges, or hashes with their entries, that the broker has and the trace does not show.
        surplus: what the trace shows and the broker does not have.
    """

    rule: str
    snapshot: Snapshot
    consumer: int
    undecided: str
    missing: tuple[str, ...]
    surplus: tuple[str, ...]


class Comparison:
    """Compares the snapshots of one subscription, in their order.

    Attributes:
        compared: by what was compared, how often.
        agreed: by what was compared, how often the broker agreed.
        beyond: by rule, how many mismatches were not kept.
        mismatches: the first ones.
    """

    def __init__(self, places: Mapping[int, int], lazy_return: bool) -> None:
        """Takes the places of the consumers, which may grow, and what `Profile.draining_return` says."""
        self.compared: Counter[str] = Counter()
        self.agreed: Counter[str] = Counter()
        self.beyond: Counter[str] = Counter()
        self.mismatches: list[Mismatch] = []
        self._places = places
        self._lazy_return = lazy_return

    def compare(
        self, snapshot: Snapshot, before: Moment, after: Moment, drains: bool, doubts: UndecidedRanges, vague: str = ""
    ) -> None:
        """Compares one snapshot with both sides of its bracket.

        Args:
            snapshot: the broker's.
            before: what the trace says when it may have been taken first.
            after: and last.
            drains: whether moved hashes drain.
            doubts: where the owners of hashes are open.
            vague: why the trace does not show what was pending at that moment, as a clause; empty: it does.
        """
        if snapshot.in_replay is not None:
            in_replay = before.rebuilt.in_replay.widened(after.rebuilt.in_replay)
            self._note("msg_in_replay", in_replay.admits(snapshot.in_replay))
        for consumer in snapshot.consumers:
            place = self._places.get(consumer.consumer)
            if place is None:
                continue
            self._compare_ranges(snapshot, consumer, place, before, after, doubts)
            if consumer.unacked is not None:
                held = before.rebuilt.unacked[place].widened(after.rebuilt.unacked[place])
                self._note("unacked_messages", held.admits(consumer.unacked))
            if drains and consumer.draining is not None:
                self._compare_draining(snapshot, consumer, place, before.rebuilt, after.rebuilt, doubts, vague)

    def forget(self, told_seq: int) -> None:
        """The snapshots up to the row `told_seq` were told of."""
        self.compared.clear()
        self.agreed.clear()
        self.beyond.clear()
        self.mismatches = [m for m in self.mismatches if m.snapshot.seq > told_seq]

    def _note(self, what: str, agrees: bool) -> None:
        self.compared[what] += 1
        self.agreed[what] += agrees

    def _compare_ranges(
        self,
        snapshot: Snapshot,
        consumer: ConsumerSnapshot,
        place: int,
        before: Moment,
        after: Moment,
        doubts: UndecidedRanges,
    ) -> None:
        number = consumer.consumer
        told = consumer.ranges
        if told is None:
            return
        ours = [moment.ranges.get(number, frozenset()) for moment in (before, after)]
        self._note("assignment_mismatch", told in ours)
        if told not in ours:
            missing = [f"[{start}, {end}]" for start, end in sorted(told - ours[1])]
            surplus = [f"[{start}, {end}]" for start, end in sorted(ours[1] - told)]
            undecided = _undecided_ranges(snapshot, symmetric_difference(told, ours[1]), doubts)
            self._report("assignment_mismatch", snapshot, place, undecided, missing, surplus)

    def _compare_draining(
        self,
        snapshot: Snapshot,
        consumer: ConsumerSnapshot,
        place: int,
        before: Reconstruction,
        after: Reconstruction,
        doubts: UndecidedRanges,
        vague: str,
    ) -> None:
        assert consumer.draining is not None
        missing: list[str] = []
        surplus: list[str] = []
        reasons: list[str] = []
        ours = {key[1] for moment in (before, after) for key in moment.draining if key[0] == place}
        for sticky_hash in sorted(ours | set(consumer.draining)):
            entries = consumer.draining.get(sticky_hash, 0)
            drained = [_drained(moment, place, sticky_hash, self._lazy_return) for moment in (before, after)]
            if not drained[0].widened(drained[1]).admits(entries):
                (missing if entries > drained[1].most else surplus).append(
                    f"{sticky_hash} ({entries} entries, {drained[1].least} to {drained[1].most} expected)"
                )
                # A hash that began to drain while its owner was open may do so for long.
                doubt = doubts.about(sticky_hash, 0, snapshot.seq)
                reasons.append(vague if doubt is None else doubt.because)
        self._note("draining_mismatch", not missing and not surplus)
        if missing or surplus:
            self._report("draining_mismatch", snapshot, place, reasons[0] if all(reasons) else "", missing, surplus)

    def _report(
        self, rule: str, snapshot: Snapshot, place: int, undecided: str, missing: Sequence[str], surplus: Sequence[str]
    ) -> None:
        if len(self.mismatches) < _KEPT_MAX:
            self.mismatches.append(Mismatch(rule, snapshot, place, undecided, tuple(missing), tuple(surplus)))
        else:
            self.beyond[rule] += 1


def _undecided_ranges(snapshot: Snapshot, differing: HashRanges, doubts: UndecidedRanges) -> str:
    """Why the owners of all hashes that differ are open; empty: of some of them they are known."""
    concerning = doubts.between(snapshot.seq_begin, snapshot.seq)
    undecided = union(both for doubt in concerning for both in doubt.ranges)
    return concerning[0].because if concerning and covers(undecided, differing) else ""


def _drained(moment: Reconstruction, place: int, sticky_hash: int, lazy_return: bool) -> Bounds:
    """How many entries the broker may count for a hash on the list of a consumer."""
    key = (place, sticky_hash)
    least, most = moment.draining.get(key, NONE)
    # The last acknowledgements may be on their way; a hash that has returned stays listed until it is tried (3.4).
    pending = moment.pending.get(key, NONE)
    return Bounds(least, most + (pending.most if lazy_return or pending.least == 0 else 0))
