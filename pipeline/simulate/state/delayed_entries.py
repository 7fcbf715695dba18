"""Delayed entries of a simulated dispatcher (contract 4.13): what a producer asked to be delivered later.

An entry that is found not to be due when it would be sent is kept here; its hash is not blocked. When it is due it
enters replay without its hash. `[InMemoryDelayedDeliveryTracker, AbstractDelayedDeliveryTracker]`: an entry counts as
due up to one tick early (`isDelayedDeliveryDeliverAtTimeStrict` is off), and the timer runs once a tick at most.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from dispatch_audit.pipeline.simulate.state.agenda import Agenda

NOT_DELAYED: Final = -1


class DelayedEntries:
    """The entries that wait for their time.

    Attributes:
        tick_us: `delayedDeliveryTickTimeMillis`.
        enabled: `delayedDeliveryEnabled`.
    """

    __slots__ = (
        "_agenda",
        "_deliver_at_us",
        "_last_tick_us",
        "_read_soon",
        "_target_us",
        "_timer",
        "_waiting",
        "enabled",
        "tick_us",
    )

    def __init__(
        self, deliver_at_us: Sequence[int], agenda: Agenda, tick_us: int, read_soon: Callable[[], None]
    ) -> None:
        """Starts without entries.

        Args:
            deliver_at_us: when each entry is due; `NOT_DELAYED`: at once.
            agenda: of the simulation.
            tick_us: the least time between two runs of the timer.
            read_soon: asks for a read.
        """
        self.tick_us, self.enabled = tick_us, True
        self._deliver_at_us = deliver_at_us
        self._agenda = agenda
        self._read_soon = read_soon
        self._waiting: list[tuple[int, int]] = []
        self._timer = 0
        self._target_us = NOT_DELAYED
        self._last_tick_us = -tick_us

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def positions(self) -> set[int]:
        """The entries."""
        return {position for _, position in self._waiting}

    def keep(self, position: int) -> bool:
        """Keeps an entry that is not due yet; returns False for all others."""
        due_us = self._deliver_at_us[position]
        if not self.enabled or due_us <= self._agenda.now_us + self.tick_us:
            return False
        heappush(self._waiting, (due_us, position))
        self._update_timer()
        return True

    def take_due(self, entries_max: int) -> list[int]:
        """Takes entries that are due, the earliest first."""
        found: list[int] = []
        cutoff_us = self._agenda.now_us + self.tick_us
        while self._waiting and len(found) < entries_max and self._waiting[0][0] <= cutoff_us:
            found.append(heappop(self._waiting)[1])
        self._update_timer()
        return found

    def clear(self) -> None:
        """Forgets all: they are read again when the cursor has gone back."""
        self._waiting.clear()
        self._update_timer()

    def _update_timer(self) -> None:
        if not self._waiting:
            self._timer, self._target_us = self._timer + 1, NOT_DELAYED
            return
        due_us = self._waiting[0][0]
        if due_us == self._target_us:
            return
        # The running timer is cancelled. Entries that are already due need none: the next read takes them.
        self._timer, self._target_us = self._timer + 1, NOT_DELAYED
        if due_us >= self._agenda.now_us:
            self._target_us = due_us
            self._agenda.at(max(due_us, self._last_tick_us + self.tick_us), self._run, self._timer)

    def _run(self, timer: int) -> None:
        if timer == self._timer:
            self._last_tick_us, self._target_us = self._agenda.now_us, NOT_DELAYED
            self._read_soon()
