"""The agenda of a simulation: actions with their times, run in the order of time and of being noted."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

Action: TypeAlias = Callable[[Any], None]

NEVER: Final = 1 << 62
"""Later than every action, in microseconds."""


class Agenda:
    """Actions to come, and the present time.

    Two actions of one time run in the order in which they were noted, so a run is reproducible.

    Attributes:
        now_us: time of the action that runs, in microseconds from the start of the simulation.
    """

    __slots__ = ("_heap", "_noted", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Action, Any]] = []
        self._noted = 0

    def at(self, when_us: int, action: Action, argument: object = None) -> None:
        """Notes an action; a time in the past counts as now."""
        self._noted += 1
        heappush(self._heap, (max(when_us, self.now_us), self._noted, action, argument))

    def after(self, delay_us: int, action: Action, argument: object = None) -> None:
        """Notes an action for a delay from now."""
        self._noted += 1
        heappush(self._heap, (self.now_us + delay_us, self._noted, action, argument))

    @property
    def next_us(self) -> int:
        """Time of the next action; `NEVER` if there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def run_next(self) -> None:
        """Moves the time on to the next action and runs it."""
        self.now_us, _, action, argument = heappop(self._heap)
        action(argument)
