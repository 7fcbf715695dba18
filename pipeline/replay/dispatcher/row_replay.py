"""The compiled kernel and the arrays it works on: it applies stretches of rows, and collects what it reports.

The result depends on these inputs only: rows in the order of `seq`, and the changes that `Dispatcher` makes in between.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.blocking.rates import Sent
from dispatch_audit.pipeline.replay.dispatcher import kernel
from dispatch_audit.pipeline.replay.dispatcher.allocation import Need, make_room, need_of
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit, disregard, take_limits
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import take_switch
from dispatch_audit.pipeline.replay.rules.findings import FindingCollector
from dispatch_audit.pipeline.replay.settings.settings_in_force import DELAYED_DELIVERY
from dispatch_audit.pipeline.replay.state.index import ConsumerIndex
from dispatch_audit.pipeline.replay.state.kinds import COMMON
from dispatch_audit.pipeline.replay.state.output import Output, new_output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, record_of
from dispatch_audit.pipeline.replay.state.state import Policy, Seen, State, Stretch, common_of, new_state
from dispatch_audit.pipeline.replay.state.values import CLAIM_CONTRADICTED, Mark
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import DispatchCounts, Peaks, decisions

_P = ParamSpec("_P")

_replay_rows = EntryPoint(kernel.replay)

_FINDINGS_ROOM = 1024

# Entries and hashes that a subscription has room for at first.
_SLOTS = 1024

# Rows that are replayed at a time: room for all of them is made first, so a small number keeps the state small.
_STRETCH = 32_768


@dataclass(eq=False, slots=True, init=False)
class RowReplay:
    """The state of one subscription, and what its rows have shown."""

    policy: Policy  # the settings of the kernel, from profile and subscription
    drains: bool  # whether moved hashes drain (AUTO_SPLIT, ordered, not the classic dispatcher; contract 3.1)
    monitor: BlockingMonitor  # collects the intervals of waiting
    traffic: DispatchCounts  # the dispatches by key and hash
    peaks: Peaks  # the most pending entries at one time, by hash
    consumers: ConsumerIndex  # the index of each consumer in the state
    collector: FindingCollector  # what the rules have found, and what withdraws it
    _open_entries_max: int
    _state: State
    _out: Output
    _without_publish_reported: int

    def __init__(
        self,
        policy: Policy,
        open_entries_max: int,
        monitor: BlockingMonitor,
        ack_sets: int,
        exceptions: Collection[ExceptionId],
        sampled: bool = False,
    ) -> None:
        self.policy = policy
        self.drains = False
        self.monitor = monitor
        self.traffic = DispatchCounts()
        self.peaks = Peaks()
        self.consumers = ConsumerIndex()
        self._open_entries_max = open_entries_max
        self._state = new_state(entries=_SLOTS, hashes=_SLOTS, consumers=64, words=64, ledgers=16)
        common = record_of(self._state.common, COMMON)
        common["ack_sets"] = ack_sets
        common["sampled"] = int(sampled)
        common["publish_skew_us"] = policy.skew_us
        self._take_settings(0)
        self._out = new_output(_FINDINGS_ROOM, _SLOTS, _SLOTS)
        self.collector = FindingCollector(exceptions)
        self._without_publish_reported = 0

    @property
    def seen(self) -> Seen:
        """The state as it is now, to be read."""
        return self._state

    def replay(self, events: Events, hashes: Ints, consumers: Ints) -> list[ContradictedLimit]:
        """Applies events under the routing in force; returns the claimed limits that the broker contradicts in them.

        Args:
            events: rows in the order of seq; all their consumers are registered.
            hashes: the sticky hash of each row, -1 where it has no key.
            consumers: the index of each row's consumer, `NOBODY` where it names none.
        """
        contradicted: list[ContradictedLimit] = []
        for start in range(0, events.code.size, _STRETCH):
            stop = min(start + _STRETCH, events.code.size)
            contradicted += self._replay(events.rows(start, stop), hashes[start:stop], consumers[start:stop])
        return contradicted

    def _replay(self, events: Events, hashes: Ints, consumers: Ints) -> list[ContradictedLimit]:
        self._make_room(need_of(events), int(events.ts_us[0]))
        # The kernel fills in the keys of dispatches, but the caller's rows must not change.
        events = events._replace(key_id=events.key_id.copy())
        state = self._state
        claims = state.limits.claims.view(np.ndarray)["claim"]
        decided = decisions(events, bool(common_of(state)["starts_seen"]))
        self.monitor.stalls.dispatched(Sent(events.ts_us[decided], events.value[decided]))
        rows, contradicted = Stretch(events, consumers, hashes, self.policy), list[ContradictedLimit]()
        at = 0
        while at < events.code.size:
            at = _replay_rows(state, self._out, rows, at)
            if CLAIM_CONTRADICTED in claims:
                found = disregard(state, self._out)
                self.monitor.forget_causes([limit.cause for limit in found])
                contradicted += found
            if self._out.stop[0] != 0:
                row = min(at, events.code.size - 1)
                where = TracePoint(int(events.seq[row]), int(events.ts_us[row]))
                named = int(events.ledger[row]), int(events.entry[row])
                self.monitor.stopped(state, self._out, where, named)
            elif at < events.code.size:
                self._drain_output()
        self.traffic.count(events, hashes, decided)
        return contradicted

    def _make_room(self, need: Need, from_us: int) -> None:
        limits = self._open_entries_max, self.policy.report_min_us
        self._state = make_room(self._state, self._out, need, from_us, *limits, self.peaks.note)
        # A record array looks its attributes up in Python, also its size.
        hashes, entries = len(self._state.hashes), len(self._state.entries)
        if len(self._out.episodes) < 2 * hashes or self._out.unsent.size < 2 * entries:
            self._drain_output()
            # Free the old buffers first; both would double the memory.
            del self._out
            self._out = new_output(_FINDINGS_ROOM, hashes, entries)

    def _reporting(
        self, transition: Callable[Concatenate[State, Output, _P], None], *values: _P.args, **named: _P.kwargs
    ) -> None:
        """Calls a transition that reports to the output: there is room for it, and its intervals are taken at once."""
        self._drain_output()
        transition(self._state, self._out, *values, **named)
        self.monitor.take_intervals(self._state, self._out)

    def _drain_output(self) -> None:
        out: Output = self._out
        # Between two membership changes there is nothing as a rule. Five numbers are faster as such than as an array.
        if any(out.filled.tolist()):
            self.monitor.take_intervals(self._state, out)
            self.collector.collect(out, self.policy)

    @property
    def connected(self) -> int:
        """The number of connected consumers."""
        return int(common_of(self._state)["connected"])

    def _take_settings(self, ts_us: int) -> None:
        in_force = self.monitor.in_force
        take_limits(self._state, in_force)
        take_switch(self._state, in_force.is_off(DELAYED_DELIVERY), in_force.of(DELAYED_DELIVERY).said_by_row, ts_us)

    def _limit_look_ahead(self) -> None:
        # The limit grows with the number of consumers (contract 4.7).
        record_of(self._state.common, COMMON)["look_ahead_limit"] = self.monitor.limits.look_ahead(self.connected) or 0

    def forget(self, reported_seq: int, recent_us: int) -> None:
        """Drops what was reported up to a row, except what is newer than `recent_us` or concerns open entries."""
        self._drain_output()
        entries = self._state.entries
        unacked = (entries.ledger != UNKNOWN) & (entries.marks & Mark.ACKED == 0)
        self.collector.forget(reported_seq, recent_us, entries.ledger[unacked], entries.entry[unacked])
        self.monitor.forget(reported_seq, recent_us)
        self.traffic, self.peaks = DispatchCounts(), Peaks()
        hashes = self._state.hashes
        used = hashes.hash != UNKNOWN
        hashes.held_max[used] = hashes.held[used] + hashes.held_elsewhere[used]
        self._state.checks.counts[:] = 0
        self._state.consumers.dispatched[:] = 0
        self._state.consumers.acked[:] = 0
        self._without_publish_reported = int(self._state.common[0].without_publish)

    def findings(self) -> Records:
        """The findings so far, those with an alibi of `collector` included."""
        self._drain_output()
        return self.collector.findings.all()

    def episodes(self) -> Records:
        """The draining episodes that have ended so far; at the end of a group, or of a window, all of them."""
        self._drain_output()
        return self.collector.episodes

    @property
    def draining(self) -> set[tuple[int, int]]:
        """The holder's index and the hash of each draining episode that is open, or ended and was not forgotten."""
        hashes, over = self._state.hashes, self.collector.episodes
        draining_hashes = hashes[(hashes.hash != UNKNOWN) & (hashes.episode.from_seq != UNKNOWN)]
        holders = [*draining_hashes.holder.tolist(), *over.holder.tolist()]
        return set(zip(holders, [*draining_hashes.hash.tolist(), *over.hash.tolist()], strict=True))

    @property
    def checked(self) -> Ints:
        """How often the rules were checked so far (indexes `state.DISPATCHES`, `state.FIRST_DELIVERIES`, ...)."""
        return self._state.checks.counts

    @property
    def counts(self) -> dict[int, tuple[int, int]]:
        """By consumer, the number of entries dispatched to it, and of pending entries that it acknowledged."""
        of_each = self._state.consumers.view(np.ndarray)[["dispatched", "acked"]].tolist()
        return dict(zip(self.consumers.numbers, of_each[: len(self.consumers)], strict=True))

    @property
    def without_publish(self) -> int:
        """How many entries that rows have named since the last window have no publish."""
        # The publish of an entry that was reported without one may have come since.
        return max(int(common_of(self._state)["without_publish"]) - self._without_publish_reported, 0)
