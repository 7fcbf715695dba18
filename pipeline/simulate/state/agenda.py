"""The agenda of a simulation: actions with their times, run in the order of time and of being noted."""

from collections.abc import Callable
from heapq import heappush
from typing import Any, Final, TypeAlias

Action: TypeAlias = Callable[[Any], None]

NEVER: Final = 1 << 62
"""Later than every action, in microseconds."""


class Agenda:
    """Actions to come, and the present time; the simulation takes the next action out and runs it.

    Two actions of one time run in the order in which they were noted, so a run is reproducible.

    Attributes:
        now_us: time of the action that runs, in microseconds from the start of the simulation.
        heap: the actions to come: time, number in the order of being noted, action, argument. The first is the next.
    """

    __slots__ = ("_noted", "heap", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self.heap: list[tuple[int, int, Action, Any]] = []
        self._noted = 0

    def at(self, when_us: int, action: Action, argument: object = None) -> None:
        """Notes an action; a time in the past counts as now."""
        self._noted += 1
        heappush(self.heap, (max(when_us, self.now_us), self._noted, action, argument))

    def after(self, delay_us: int, action: Action, argument: object = None) -> None:
        """Notes an action for a delay from now."""
        self._noted += 1
        heappush(self.heap, (self.now_us + delay_us, self._noted, action, argument))
