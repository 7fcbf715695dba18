"""The dispatcher of one subscription, as the audit reconstructs it: what joins, leaves, resets and settings change.

It takes stretches of events in the order of `seq` (`row_replay`), with membership changes and routings in between, and
returns the findings. Callers name consumers by the trace's numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.dispatcher import join_leave_reset
from dispatch_audit.pipeline.replay.dispatcher.acknowledgements import mark_delete_may_move
from dispatch_audit.pipeline.replay.dispatcher.allocation import Need
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import LIMITED, look_at_reads
from dispatch_audit.pipeline.replay.dispatcher.entry.draining import remap
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import end_delays
from dispatch_audit.pipeline.replay.dispatcher.flow_control import note_capacities, note_capacity
from dispatch_audit.pipeline.replay.dispatcher.row_replay import RowReplay
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.state.kinds import COMMON, CONSUMER
from dispatch_audit.pipeline.replay.state.memories import CLAIM, CONSUMER_LIMIT, LIMIT
from dispatch_audit.pipeline.replay.state.output import OF_CONSUMER, By
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, record_of
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, BY_SNAPSHOTS, LEAVING, Reset

# What a membership change, a stretch of rows or the end of a partition calls; the others are rare.
_all_hashes_served = EntryPoint(join_leave_reset.all_hashes_served)
_change_owners = EntryPoint(join_leave_reset.change_owners)
_close = EntryPoint(join_leave_reset.close)
_end_delays = EntryPoint(end_delays)
_consumer_left = EntryPoint(join_leave_reset.consumer_left)
_end_unavailability_of_all = EntryPoint(join_leave_reset.end_unavailability_of_all)
_remap = EntryPoint(remap)
_note_capacity = EntryPoint(note_capacity)
_note_capacities = EntryPoint(note_capacities)


@checkpointed("dispatcher")
class Dispatcher(RowReplay):
    """The transitions of one subscription's state between two stretches of rows."""

    __slots__ = ()

    def open(self, keeps_order: bool, sticky: bool, drains: bool, holds_back: bool) -> None:
        """Sets the policy that the first consumer decides, for as long as any consumer is connected."""
        self._drain_output()
        self.policy = self.policy._replace(keeps_order=keeps_order, sticky=sticky)
        self.drains = drains
        self.monitor.recent.applies = holds_back

    def register_consumer(self, number: int) -> None:
        """Adds a consumer that may be sent to before it is connected: the hooks run on different threads."""
        if self.consumers.add(number):
            self._make_room(Need(0, len(self.consumers), 0, 0), 0)

    def connect(self, number: int, at: TracePoint) -> None:
        """Connects a consumer; the caller passes the new routing to `route`."""
        if self.connected == 0:
            self._first_joins(at)
        self._before_change(at, By.JOIN)
        if common_of(self._state)["resetting"] == Reset.RESTARTED:
            # Joins wait until the cursor is reset (5.10), and the row of its end may be missing.
            self.end_reset(at)
        self.register_consumer(number)
        index = self.consumers.of[number]
        joined, common = record_of(self._state.consumers, CONSUMER, index), record_of(self._state.common, COMMON)
        joined["leaving"] = 0
        if joined["connected"] == 0:
            joined["connected"] = 1
            joined["dispatched_at_join"] = common["highest_dispatched"]
            joined["published_at_join"] = common["last_published"]
            common["connected"] += 1
        self._limit_look_ahead()
        if self.monitor.recent.applies:
            self.monitor.recent.join(self._state, index, at)

    def _first_joins(self, at: TracePoint) -> None:
        """Ends the time in which no consumer was connected; entries may be sent to the first one from here on."""
        self._reporting(_end_delays, at, self.policy)
        common = record_of(self._state.common, COMMON)
        if common["last_dispatch"]["ts_us"] > 0:
            # Before the first dispatch the subscription may not have been there.
            self.monitor.idle_over(self._state, at, By.JOIN)
        self.monitor.reports.rewound(at.ts_us)
        common["waiting_since"] = at

    def begin_leaving(self, number: int) -> None:
        """Marks a consumer as leaving: from here on its entries are not certainly pending."""
        # The consumer is unknown if the clock stepped back between its join and its leave.
        if number in self.consumers.of:
            leaving = record_of(self._state.consumers, CONSUMER, self.consumers.of[number])
            leaving["leaving"] = max(leaving["leaving"], LEAVING)

    def disconnect(self, number: int, at: TracePoint) -> None:
        """Disconnects a consumer: its pending entries wait again."""
        is_last = self.connected == 1
        self._before_change(at, By.LEAVE, ends_all=is_last)
        if self.monitor.recent.applies:
            self.monitor.recent.leave(self._state, self.consumers.of[number], at)
        if is_last:
            self._reporting(_all_hashes_served, at, By.LEAVE, self.policy)
        self._reporting(_consumer_left, self.consumers.of[number], at, self.policy.skew_us)
        self._limit_look_ahead()

    def route(self, routing: Routing, at: TracePoint, over_us: int, served: Routing, over_seq: int = UNKNOWN) -> None:
        """Puts the routing in force that the rules require; moved hashes with pending entries start to drain.

        It certainly is in force by the time `over_us`, and in front of the row `over_seq`. A flaw may make the routing
        another one that the broker's selector has `served` (contract 2.4).
        """
        self._drain_output()
        common = record_of(self._state.common, COMMON)
        if common["first_join_seq"] == UNKNOWN:
            common["first_join_seq"] = max(at.seq, over_seq)
        before, promised = self._state.routing, self.consumers.routing(routing)
        served_by = promised if served is routing else self.consumers.routing(served)
        self.collector.change_routing(before, served_by, over_us, self.policy.skew_us)
        self._state = self._state._replace(routing=promised)
        if self.drains:
            self._reporting(_remap, before, at, over_seq)
            self.monitor.moves.note(self._state, before, at)
        self._reporting(_change_owners, at, By.JOIN, self.policy)

    def rehash(self, sticky: Callable[[Ints], Ints]) -> None:
        """Hashes all keys anew with another selector; no consumer is connected at that time (E16)."""
        self.peaks.note_all(self._state)
        murmur = self._state.entries.murmur
        join_leave_reset.rehash_entries(self._state, np.where(murmur >= 0, sticky(np.maximum(murmur, 0)), UNKNOWN))

    def begin_reset(self, at: TracePoint) -> None:
        """Begins a seek, unload or transfer: from here on neither pending nor acknowledged entries are certain."""
        self._end_waits(at, By.RESET)
        common, consumers = record_of(self._state.common, COMMON), self._state.consumers.view(np.ndarray)
        common["resetting"] = Reset.BEGUN
        # What waited until here has been reported, and from here on it waits for another dispatcher.
        common["waiting_since"] = at
        consumers["leaving"][consumers["connected"] == 1] = LEAVING

    def restart(self, at: TracePoint) -> None:
        """Applies the reset: the dispatcher loses its state, and its consumers are closed."""
        self._reporting(join_leave_reset.reset_takes_effect, at, self.policy.skew_us)

    def end_reset(self, at: TracePoint) -> None:
        """Ends the reset: later rows happened after it."""
        common = record_of(self._state.common, COMMON)
        common["resetting"] = Reset.ENDED if common["resetting"] == Reset.BEGUN else Reset.NONE
        common["unseen_until_ts"] = max(int(common["unseen_until_ts"]), at.ts_us + self.policy.skew_us)

    def skip(self, at: TracePoint, over: bool) -> None:
        """Notes that an administrator moves mark-delete, here or later: the broker may drop pending entries (E6)."""
        # From here on nobody knows which entries wait.
        self._before_change(at, By.RESET)
        mark_delete_may_move(self._state, at.ts_us, over)
        self._reporting(_note_capacities, at, By.RESET, self.policy.report_min_us)

    def interrupt(self, at: TracePoint) -> None:
        """Ends everything that is open, and drops what was known of entries: from here on rows are missing."""
        self._end_waits(at, By.GAP)
        self.peaks.note_all(self._state)
        self._reporting(_close, at)
        self._drain_output()
        self.collector.end_open_episodes()
        self._state = join_leave_reset.without_entries(self._state)
        self._out.stop[0] = 0
        self.monitor.suspend()

    @contextmanager
    def settings_changing(self, at: TracePoint) -> Iterator[None]:
        """Looks at what waits before settings change, and takes over those that may be in force afterwards."""
        self._drain_output()
        # Until now it waited for the limits before.
        self.monitor.members_change(self._state, at, By.SETTINGS)
        yield
        self.monitor.settings_changed()
        self._take_settings(at.ts_us)
        self._limit_look_ahead()
        self._reporting(_note_capacities, at, By.SETTINGS, self.policy.report_min_us)

    def judge_anew(self, setting: str) -> None:
        """Judges by a limit of unacknowledged messages anew, because a row says another one."""
        limited, limits = LIMITED[setting], self._state.limits
        limits.claims[limited : limited + 1] = CLAIM.new(1)
        if limited == OF_CONSUMER:
            limits.consumers[:] = CONSUMER_LIMIT.anew(limits.consumers)
        else:
            full = record_of(limits.common, LIMIT)
            full["full_since_ts"] = 0
            # What is held already does not reach another limit; the next change of it may (4.14).
            full["unacked"] = common_of(self._state)["unacked"]

    def apply_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Takes from a snapshot the replay size, read positions at joins, and permits if there are no flow rows."""
        state = self._state
        self.monitor.reported(state, snapshot, self.consumers.of)
        look_at_reads(state, snapshot.read_position, snapshot.ts_us - SNAPSHOT_LAG_US)
        common = record_of(state.common, COMMON)
        if snapshot.read_position is not None:
            common["reported_read"] = snapshot.read_position
        for index, consumer in self.consumers.known_in(snapshot):
            record = record_of(state.consumers, CONSUMER, index)
            record["named_seq"] = max(int(record["named_seq"]), snapshot.seq_begin)
            if self.monitor.recent.applies and consumer.joined_at is not None:
                self.monitor.recent.note_position(state, index, consumer.joined_at)
            if consumer.permits is not None and common["permits_known_by"] != BY_FLOWS:
                common["permits_known_by"] = BY_SNAPSHOTS
                record["permits"] = consumer.permits
                # What it was just sent, the snapshot may not count yet.
                was_sent = record["sent_ts"] > snapshot.ts_us - SNAPSHOT_LAG_US
                record["certain_permits"] = 0 if was_sent else consumer.permits
                self._reporting(_note_capacity, index, at, By.FLOW, self.policy.report_min_us)

    def _before_change(self, at: TracePoint, ended_by: int, ends_all: bool = False) -> None:
        """Ends and notes the intervals of consumers; call before joins, leaves, resets, skips and the end of the trace.

        `ended_by` is one of `output.ENDINGS`; `ends_all`: it ends the time in which nothing was sent to anybody, too.
        """
        self._reporting(_end_delays, at, self.policy)
        self.monitor.members_change(self._state, at, ended_by)
        if ends_all:
            self.monitor.idle_over(self._state, at, ended_by)
        self._reporting(_end_unavailability_of_all, at, ended_by, self.policy)

    def _end_waits(self, at: TracePoint, ended_by: int) -> None:
        """Ends the waits of all consumers and hashes; call before a reset, a gap or the end of the trace."""
        self._before_change(at, ended_by, ends_all=True)
        self._reporting(_all_hashes_served, at, ended_by, self.policy)
        self.monitor.recent.close(self._state, at, ended_by)

    def close(self, at: TracePoint, goes_on: bool) -> None:
        """Reports what is open at the end of the trace, or of a window after which the trace `goes_on`."""
        self._drain_output()
        self.monitor.intervals.open_until = at if goes_on else None
        self._end_waits(at, By.OPEN)
        self.peaks.note_all(self._state)
        self.monitor.stalls.settle()
        self._reporting(_close, at)
        self._drain_output()
