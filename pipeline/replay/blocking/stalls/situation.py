"""A time in which nothing was sent, and which of the entries that waited could have been sent in it (V10).

An entry could have been sent if its owner could take it for as long as a stall lasts at least and no other consumer
held its hash. Whether the subscription had to send it is another question: it may begin after the entry, and an
administrator may have moved mark-delete past it (contract 5.10).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import Interval, Waiters, are_after, are_before, waiters
from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined
from dispatch_audit.pipeline.replay.blocking.stalls.reported import (
    Reported,
    may_be_skipped,
    reported_as_read,
    shown_as_read,
)
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import Cause, Mark

Mask = NDArray[np.bool_]

_NO_TIME = Interval(0, 0, 0, 0, By.ACK)


@dataclass(eq=False)
class Situation:
    """A time in which nothing was sent, and what is true at its end.

    Attributes:
        state: of the kernel.
        said: what snapshots said last.
        recent: the recently joined consumers, which get nothing new (3.x and classic; 6.1).
        stall_threshold_us: the shortest time without a dispatch that is a stall.
        limits: of the broker, as far as settings are in force.
        pauses_at: with more ranges of acknowledged entries than this the dispatcher may pause (4.2); 0: it does not.
        in_force: the settings.
        interval: the time.
        sent: the entry whose dispatch ends it; None: something else does.
    """

    state: Seen
    said: Reported
    recent: RecentlyJoined
    stall_threshold_us: int
    limits: BrokerLimits
    pauses_at: int
    in_force: SettingsInForce
    interval: Interval = _NO_TIME
    sent: Position | None = None

    def over(self, interval: Interval, sent: Position | None = None) -> "Situation":
        """The same at the end of a time in which nothing was sent."""
        return replace(self, interval=interval, sent=sent)

    @property
    def since_us(self) -> int:
        """The moment after which a cause that has ended still counts: a stall threshold before the end."""
        return max(self.interval.from_ts, self.interval.to_ts - self.stall_threshold_us)

    @property
    def duration_us(self) -> int:
        """The length of the time."""
        return self.interval.to_ts - self.interval.from_ts

    @cached_property
    def reported(self) -> Reported:
        """What snapshots of the time say."""
        return self.said.since(self.interval.from_ts)

    @cached_property
    def consumers(self) -> Any:
        """The records of the consumers; a plain array, because each attribute of a record array takes microseconds."""
        return self.state.consumers.view(np.ndarray)

    @cached_property
    def connected(self) -> Mask:
        """Which consumers are connected."""
        connected: Mask = self.consumers["connected"] == 1
        return connected

    @property
    def unacked(self) -> int:
        """The messages that the broker may count as unacknowledged in the subscription."""
        return max(int(common_of(self.state)["unacked"]), self.reported.unacked or 0)

    @property
    def look_ahead_limit(self) -> int | None:
        """From so many entries in replay on the broker reads no further; None: it has no such limit."""
        return self.limits.look_ahead(int(np.count_nonzero(self.connected)))

    @cached_property
    def causes(self) -> Ints:
        """Why each consumer can be sent nothing, or could not less than a stall threshold ago."""
        waits: Any = self.state.waits.consumers.view(np.ndarray)
        lately = (waits["cause"] == Cause.READY.value) & (waits["cause_since"]["ts_us"] > self.since_us)
        # The moment in which one that joined had no permits yet explains nothing.
        lately &= waits["unavailable_us"] >= READ_AND_PAUSE_US
        found: Ints = np.where(lately, waits["former"], waits["cause"])
        return found

    @property
    def ready(self) -> Mask:
        """Which connected consumers had permits, as far as rows show."""
        ready: Mask = self.connected & (self.causes == Cause.READY.value)
        return ready

    @cached_property
    def unavailable(self) -> Mask:
        """Which connected consumers can be sent nothing, or could not less than a stall threshold ago.

        The broker may send to one that is blocked on unacknowledged messages, but only if something else makes it read
        (4.2, 4.8). A snapshot without permits overrides rows that grant some: a limit that no row names may withhold
        them.
        """
        consumers, reported = self.consumers, self.reported
        cannot: Mask = ~self.ready | (consumers["blocked"] == 1) | (consumers["unblocked_ts"] > self.since_us)
        if reported.short:
            short = np.array(sorted(reported.short))
            cannot[short] |= (
                self.state.waits.consumers.view(np.ndarray)["cause_since"]["ts_us"][short] <= reported.unacked_us
            )
        return self.connected & cannot

    @cached_property
    def waiting(self) -> Waiters:
        """The entries that wait; what is before the read position of a snapshot was read."""
        waiting = waiters(self.state)
        waiting = waiting.where(waiting.since_ts < self.interval.to_ts)
        lasting = self.reported._replace(read_position=self.reported.read_since(self.since_us))
        return waiting._replace(was_read=shown_as_read(self.state, waiting, lasting))

    @cached_property
    def held(self) -> Mask:
        """Which of the entries that wait their owner or their hash has held up."""
        waiting = self.waiting
        free_ts = self.state.waits.hashes.view(np.ndarray)["free_ts"][waiting.hash_at]
        held: Mask = waiting.drains | (free_ts > self.since_us) | (waiting.owner == NOBODY)
        return held | self.unavailable[waiting.owner]

    @cached_property
    def free(self) -> Waiters:
        """The entries that could have been sent for as long as a stall lasts, and had to be."""
        could_be_sent = ~self.held & (self.waiting.since_ts <= self.since_us)
        return self.waiting.where(could_be_sent & self._must_be_sent())

    def _must_be_sent(self) -> Mask:
        """Whether the subscription certainly has to deliver each entry that waits.

        It may begin after what was published before its first consumer joined, unless it was sent something before.
        """
        state, slots = self.state, self.waiting.slot
        common, marks = common_of(state), state.entries.view(np.ndarray)["marks"][slots]
        certain = are_after(state, slots, self.consumers[0]["published_at_join"].item()) | (marks & Mark.SENT != 0)
        if common["highest_dispatched"]["ledger"] != UNKNOWN:
            certain |= are_after(state, slots, common["highest_dispatched"].item())
        if self.sent is not None:
            certain |= ~are_before(state, slots, self.sent)
        must: Mask = certain & ~may_be_skipped(state, self.waiting, self.reported)
        return must

    @cached_property
    def goes_on(self) -> Waiters:
        """The entry whose dispatch ends the time; none if something else does."""
        state, slots, sent = self.state, self.waiting.slot, self.sent
        if sent is None:
            return self.waiting.where(np.zeros(slots.size, dtype=np.bool_))
        return self.waiting.where(~are_before(state, slots, sent) & ~are_after(state, slots, sent))

    @cached_property
    def gave_up(self) -> Mask:
        """Which consumers gave up something in the time."""
        gave_up: Mask = self.consumers["gave_up_at"]["seq"] > self.interval.from_seq
        return gave_up

    @property
    def perhaps_blocked(self) -> Mask:
        """Who may have been blocked: not who is sent something at last, and gave up nothing in the time."""
        perhaps = np.ones(self.consumers.size, dtype=np.bool_)
        perhaps[self.goes_on.owner] = self.gave_up[self.goes_on.owner]
        return perhaps

    @cached_property
    def unread(self) -> Mask:
        """Which entries that could be sent were not read, as far as rows and snapshots show."""
        unread: Mask = ~shown_as_read(self.state, self.free, self.reported)
        return unread

    @cached_property
    def held_back(self) -> dict[int, Position]:
        """From where on consumers that certainly joined recently get nothing, by their indexes (6.1)."""
        return self.recent.certain(self.state)

    @cached_property
    def behind_joins(self) -> Mask:
        """Which entries that could be sent are certainly held back because their consumers joined recently (6.1).

        Such a consumer gets nothing new from its position on, and nothing out of replay from the lowest of the
        positions on.
        """
        if not self.held_back:
            return np.zeros(self.free.slot.size, dtype=np.bool_)
        lowest = min(self.held_back.values())
        behind: Mask = np.isin(self.free.owner, [*self.held_back]) & ~are_before(self.state, self.free.slot, lowest)
        return behind

    @cached_property
    def perhaps_behind_joins(self) -> Mask:
        """Which perhaps are, or wait until the broker has read on, because consumers perhaps joined recently."""
        perhaps = {*self.recent.perhaps(self.state), *self.recent.until}
        if perhaps <= self.held_back.keys():
            return self.behind_joins
        unread = ~reported_as_read(self.state, self.free, self.reported)
        maybe: Mask = self.behind_joins | unread | np.isin(self.free.owner, [*perhaps])
        return maybe
