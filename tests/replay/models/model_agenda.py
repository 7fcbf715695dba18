"""The time of the model: what happens when, and how long it takes."""

import heapq
from collections.abc import Callable, Sequence
from itertools import count, cycle

from local_replay import Log


class Agenda:
    """What is due, in the order of time and, at one moment, of being asked for; the time is that of the log.

    Args:
        log: whose rows get the time.
        latencies_us: are used one after the other, over and over.
    """

    def __init__(self, log: Log, latencies_us: Sequence[int]) -> None:
        self._log = log
        self._latencies_us = cycle(latencies_us)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    @property
    def now_us(self) -> int:
        """The time."""
        return self._log.now_us

    def run(self, for_us: int) -> None:
        """Lets time pass."""
        until_us = self.now_us + for_us
        while self._due and self._due[0][0] <= until_us:
            self._log.now_us, _, happens = heapq.heappop(self._due)
            happens()
        self._log.now_us = until_us

    def at(self, us: int, happens: Callable[[], None]) -> None:
        """Something happens then."""
        heapq.heappush(self._due, (us, next(self._numbers), happens))

    def later(self, happens: Callable[[], None], in_us: int | None = None) -> None:
        """Something happens so much later; None: after a latency."""
        self.at(self.now_us + self.latency(in_us), happens)

    def latency(self, us: int | None = None) -> int:
        """The next latency, unless one is given."""
        return next(self._latencies_us) if us is None else us
