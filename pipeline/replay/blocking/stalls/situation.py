"""What is true at the end of a time in which nothing was sent."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.blocking.stalls.reported import Reported
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of


class HeldBack(NamedTuple):
    """The recently joined consumers of a dispatcher that keeps them (3.x and classic; contract 6.1).

    Attributes:
        applies: whether the dispatcher keeps recently joined consumers.
        until: the index of each with the position that it gets nothing from for now, in the order of the joins; the
            real position may be higher.
        holder: the index of the consumer that held the oldest entry when the first of them joined; NOBODY: none did.
        root: that entry.
        perhaps: consumers that rows do not show to be held back, but may be: the index with the highest position that
            was published at its join.
        out_of_order: those that snapshots show to be remembered after one with a later read position (6.3).
    """

    applies: bool
    until: tuple[tuple[int, Position], ...]
    holder: int
    root: Position
    perhaps: tuple[tuple[int, Position], ...]
    out_of_order: frozenset[int]


class Ended(NamedTuple):
    """A consumer that can be sent something again, or nothing for another reason, and the cause until now."""

    consumer: int
    cause: int


class Situation(NamedTuple):
    """A time in which nothing was sent, and what is true at its end.

    Attributes:
        state: of the kernel.
        interval: the time.
        sent: the entry whose dispatch ends it; None: something else does.
        ended: the consumer whose interval ends there; None: none does.
        reported: what snapshots of the time say.
        held_back: the recently joined consumers, which get nothing new (3.x and classic; 6.1).
        stall_threshold_us: the shortest time without a dispatch that is a stall.
        limits: of the broker, as far as settings are in force.
        pauses_at: with more ranges of acknowledged entries than this the dispatcher may pause (4.2); 0: it does not.
        in_force: the settings.
    """

    state: Seen
    interval: Interval
    sent: Position | None
    ended: Ended | None
    reported: Reported
    held_back: HeldBack
    stall_threshold_us: int
    limits: BrokerLimits
    pauses_at: int
    in_force: SettingsInForce

    @property
    def since_us(self) -> int:
        """The moment after which a cause that has ended still counts: a stall threshold before the end."""
        return max(self.interval.from_ts, self.interval.to_ts - self.stall_threshold_us)

    @property
    def duration_us(self) -> int:
        """The length of the time."""
        return self.interval.to_ts - self.interval.from_ts

    @property
    def connected(self) -> NDArray[np.bool_]:
        """Which consumers are connected."""
        connected: NDArray[np.bool_] = self.state.consumers.view(np.ndarray)["connected"] == 1
        return connected

    @property
    def unacked(self) -> int:
        """The messages that the broker may count as unacknowledged in the subscription."""
        return max(int(common_of(self.state)["unacked"]), self.reported.unacked or 0)

    @property
    def look_ahead_limit(self) -> int | None:
        """From so many entries in replay on the broker reads no further; None: it has no such limit."""
        return self.limits.look_ahead(int(np.count_nonzero(self.connected)))


SituationOf = Callable[[Interval, Position | None], Situation]
"""Returns a situation, given the interval, and the entry whose dispatch ends it; None: something else does."""
