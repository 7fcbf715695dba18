"""Turns the rows of one subscription into steps, in the order in which events took effect.

Rows are held back until the membership changes among them are bounded on both sides. Then the changes enter the
assignment and are located (`change_points`), and the rows are handed on in stretches of one routing each. The number of
rows held back depends on how long a broker takes for a membership change, not on the length of the trace.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dispatch_audit.pipeline.assignment.join_orders import Burst
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import NEVER, MembershipEvent, TracePoint
from dispatch_audit.pipeline.packing.packed_batch import Merged
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.membership import steps
from dispatch_audit.pipeline.replay.membership.hash_owners import HashOwners
from dispatch_audit.pipeline.replay.membership.history import RefusedJoins, Stay, unseen_join
from dispatch_audit.pipeline.replay.membership.steps import PlannedSteps
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import locate_changes, observations
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from dispatch_audit.pipeline.replay.timeline.open_changes import OpenChanges
from dispatch_audit.pipeline.replay.timeline.presence_bounds import precedence
from dispatch_audit.pipeline.replay.timeline.snapshot_views import View, view_of


@checkpointed("membership")
@dataclass(eq=False, slots=True, init=False)
class Membership:
    """Who was connected to one subscription, and who owned which hash."""

    owners: HashOwners  # who owns which hash
    stays: dict[int, Stay]  # the time for which each consumer was connected, by the trace's number
    refused_joins: RefusedJoins  # the joins that the broker refused
    one_sided: OneSidedRecording  # the sides of rows that the recorder does not write
    _config: ReplayConfig
    _held: HeldRows
    _changes: OpenChanges
    planned: PlannedSteps  # the steps that are not due yet
    _holds_back: bool  # whether recently joined consumers get no new entries

    def __init__(self, config: ReplayConfig) -> None:
        self.owners, self.stays = HashOwners(config), {}
        self.refused_joins, self.one_sided = RefusedJoins(), OneSidedRecording()
        self._config, self._held, self._holds_back = config, HeldRows(), False
        self._changes = OpenChanges(self._held, config.skew_us, config.orders.rows_max)
        self.planned = PlannedSteps(self._held, self._changes, config.skew_us, config.complete_from_start)

    @property
    def released(self) -> TracePoint:
        """The last row that has taken effect; its seq is -1 if none has."""
        return self._held.released

    @property
    def connected(self) -> set[int]:
        """The trace's numbers of the consumers that have joined and not left."""
        return {number for number, stay in self.stays.items() if stay.joined is not None and stay.left is None}

    def push(self, part: Merged, snapshots: Sequence[Snapshot]) -> Iterator[steps.Step]:
        """Takes the next rows in the order of seq; yields the steps that are certain by now; read all of them.

        `snapshots` are those among the rows, with the ranges that they leave out.
        """
        self._held.push(part.events, self.owners.hashes(part.events))
        for gap in part.gaps:
            self.planned.add_gap(gap)
        for values in part.settings:
            self.planned.add_settings(values)
        # A leave after a snapshot may be of a consumer that only the snapshot shows.
        rows: list[MembershipEvent | Snapshot] = [*part.membership, *snapshots]
        for row in sorted(rows, key=lambda row: row.seq):
            if isinstance(row, Snapshot):
                self.planned.add_snapshot(row)
            elif row.kind == "join" and row.consumer < 0:
                self.refused_joins.note(row)
            else:
                self.planned.add_change(row)
        yield from self.settle(0)

    def settle(self, now_us: int) -> Iterator[steps.Step]:
        """Releases the rows that a row at `now_us` would release, if there is none until then; `NEVER`: all rows."""
        newest = self._held.newest
        if newest is None:
            return
        final = now_us == NEVER
        # Later rows may concern events of up to `held_us` earlier.
        certain_us = NEVER if final else max(newest.ts_us, now_us) - self.planned.held_us
        yield from (steps.RefusedChange(row) for row in self.planned.take_refused(certain_us))
        floors = self._changes.floors()
        while (ready := self._changes.ready(final, certain_us, floors)) is not None:
            yield from self._place(*ready)
        # A gap may begin or end after the last row.
        # Up to here nothing changes any more; a snapshot taken after the row that opens a bracket may show the change.
        settled_seq = min(self._held.point_before(certain_us).seq, self._changes.first_seq - 1)
        yield from self._advance(NEVER if final else settled_seq)
        yield from self._released_rows()
        self._held.drop_taken()

    def _place(self, cluster: list[Bracket], view: View | None) -> Iterator[steps.Step]:
        """Lets overlapping changes take effect, in an order that their evidence allows."""
        # The row that opens the first bracket stays held, because its time is needed.
        bounds = [b.bounds for b in cluster]
        yield from self._advance(min(after for after, _ in bounds) - 1)
        for bracket in cluster:
            # The search is short, because the earliest changes are removed first.
            self._changes.brackets.open.remove(bracket)
        bounds = [b.bounds for b in cluster]
        over = max(before for _, before in bounds)
        known = precedence(cluster, self._there_after(cluster, over, view))
        if self._depends_on_earlier_rows:
            yield from self._released_rows()
        join = next((change.row for change in cluster if change.row.kind == "join"), None)
        if join is not None and not self.owners.has_consumers:
            yield from self._open_as_asked(join)
        shown_after = observations(
            None if view is None else view.reported(),
            lambda: self._held.decisions(over - 1, self._changes.first_seq),
            self._held.recorded_late,
        )
        burst = Burst([_change(bracket) for bracket in cluster], known, shown_after)
        self.one_sided.note_changes(cluster, bounds)
        order, routings = self.owners.enter(burst, [bracket.row.seq for bracket in cluster], bounds)
        in_order = [bounds[number] for number in order]
        # The rows include the one that closes the last bracket.
        located = locate_changes(in_order, *self._held.up_to(over), self._held.decisions(-1, over + 1), routings)
        for done, (number, (at, over_seq)) in enumerate(zip(order, located, strict=True)):
            # A snapshot that shows a later change was taken after this one too.
            yield from self._advance(at.seq, set().union(*(cluster[later].shown_by for later in order[done:])))
            cluster[number].placed = at
            self._changes.brackets.placed_seq = at.seq
            yield from self._released_rows()
            yield from self._take_effect(cluster[number], at, over_seq)

    def _open_as_asked(self, join: MembershipEvent) -> Iterator[steps.Step]:
        """Chooses the selector and the policy for which the first consumer of a dispatcher asks."""
        draining, in_order = self._config.profile.dispatcher == "draining", not join.out_of_order
        self._holds_back = not draining and in_order
        rehashed = self.owners.choose_selector(join.sticky)
        yield steps.DispatcherOpened(
            keeps_order=in_order,
            sticky=join.sticky,
            drains=draining and in_order and not join.sticky,
            holds_back=self._holds_back,
            rehashed=rehashed,
        )
        if rehashed:
            self._held.rehash(self.owners.hashes)

    def _take_effect(self, change: Bracket, at: TracePoint, over_seq: int) -> Iterator[steps.Step]:
        """Applies a change; the broker too changes the assignment first (contract 3.5, 3.6)."""
        row, (since_us, until_us) = change.row, change.bounds_ts_us
        # The point has the time of the row in front of the change, which may be long before it.
        at = at.not_before(since_us)
        if row.kind == "join":
            self.stays[row.consumer].joined = at
            yield steps.ConsumerJoined(at, row.consumer)
        elif row.kind == "leave" and row.consumer not in self.stays:
            yield steps.RefusedChange(row)  # no snapshot showed the assignment while it was there
        elif row.kind == "leave":
            yield from self._leave(row.consumer, at, row.reason)
        else:
            yield steps.Restarted(at)
            for number in self.connected:
                yield from self._leave(number, at, row.reason)
        over_us = max(at.ts_us, until_us)
        opened = self.owners.begin(at, over_us)
        if opened is not None:
            yield steps.EpochBegins(opened, at, over_us, over_seq)

    def _leave(self, number: int, at: TracePoint, reason: str) -> Iterator[steps.Step]:
        stay = self.stays[number]
        if stay.left is None:
            stay.left, stay.leave_reason = at, reason
            yield steps.ConsumerLeft(at, number)

    def _there_after(self, cluster: Sequence[Bracket], over: int, view: View | None) -> Collection[int]:
        """Consumers that are certainly connected after changes that are over by the row `over`."""
        there = set(() if view is None else view.listed)
        if any(b.row.kind == "reset" for b in cluster):
            sent = self._held.decisions(over - 1, NEVER)
            # Of a dispatch decided before a restart, the end may be recorded after it.
            there.update(() if sent.recorded_late else sent.consumers.tolist())
        return there

    def _advance(self, seq: int, shown_by: Collection[int] = ()) -> Iterator[steps.Step]:
        """Lets all rows and planned steps up to and including the row `seq` take effect; see `PlannedSteps.take`."""
        due = self.planned.take(seq, shown_by)
        self._changes.drop_views(seq, shown_by)
        for step in due:
            self._held.release(step.at.seq)
            if isinstance(step, steps.Registered):
                if self._held.released_name(step.row.consumer) or self._depends_on_earlier_rows:
                    yield from self._released_rows()
                self.stays[step.row.consumer] = Stay(step.row)
            else:
                yield from self._released_rows()
                if isinstance(step, steps.GapSide) and not step.late and step.gap.loses_members:
                    # A snapshot or a reset shows the consumers again.
                    self.owners.interrupt()
            yield step
            if isinstance(step, steps.SnapshotSide) and step.late and self.owners.epochs.known_since is None:
                yield from self._adopt(step.snapshot, step.at)
        self._held.release(seq)

    def _adopt(self, snapshot: Snapshot, at: TracePoint) -> Iterator[steps.Step]:
        """Takes over the consumers and the assignment that a snapshot shows, where joins or leaves are missing.

        Not if somebody joined or left while it was taken, if rows contradict it, or if it does not show all ranges and
        names.
        """
        brackets, epochs = self._changes.brackets, self.owners.epochs
        reported = view_of(snapshot, at, at).reported()
        if reported is None or brackets.placed_seq > snapshot.seq_begin:
            return
        if epochs.waiting or reported.by_consumer == epochs.ranges:
            return
        unseen = [consumer for consumer in snapshot.consumers if consumer.consumer not in self.connected]
        joined = brackets.joined if unseen else ()
        if not all(consumer.name and consumer.consumer in joined for consumer in unseen):
            return
        rows = [unseen_join(snapshot, consumer) for consumer in unseen]
        gone = self.connected - {consumer.consumer for consumer in snapshot.consumers}
        there = self.connected - gone
        if not there:
            if snapshot.keeps_order is None:
                return  # a wrong guess would be a false violation
            yield from self._open_as_asked(rows[0])
        names = {number: self.stays[number].row.name for number in sorted(there)}
        opened = self.owners.adopt(names | {row.consumer: row.name for row in rows}, reported, at)
        if opened is None:
            return
        for row in rows:
            self.stays[row.consumer] = Stay(row, joined=at, unseen=True)
            yield steps.Registered(at, row)
            yield steps.ConsumerJoined(at, row.consumer)
        for number in gone:
            yield from self._leave(number, at, "")
        yield steps.EpochBegins(opened, at, at.ts_us)

    @property
    def _depends_on_earlier_rows(self) -> bool:
        """Whether all rows before must be replayed before changes enter the assignment and consumers are added.

        The first consumer decides the selector and the policy, and rows may show owners that are open. The wait of a
        recently joined consumer ends in front of the next row, or with the last one of a stretch.
        """
        return not self.owners.has_consumers or bool(self.owners.doubts) or self._holds_back

    def _released_rows(self) -> Iterator[steps.Step]:
        """The rows that have taken effect; to be handed on before anything changes that they depend on."""
        rows = self._held.take()
        if rows is not None:
            yield steps.Rows(*rows)


def _change(bracket: Bracket) -> Change:
    row = bracket.row
    # Only the rows of a join must contain the name and the declared ranges of a consumer.
    joined = row if bracket.join is None else bracket.join.row
    return Change(row.kind, row.consumer, joined.name, joined.ranges)
