"""Reads that were asked for: in another thread, after a delay, or after the backoff (contract 4.1, 4.2)."""

from collections.abc import Callable

from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class ReadRequests:
    """Asks for reads of one dispatcher.

    Attributes:
        queued: whether a read is queued in another thread.
    """

    def __init__(self, state: DispatcherState, read_more: Callable[[], None]) -> None:
        """Takes the function that begins a read if there is reason to."""
        self._state = state
        self._read_more = read_more
        self._scheduled = False
        self._backoff_us = state.settings.backoff_initial_us
        self.queued = False

    def soon(self) -> None:
        """Asks for a read in another thread; requests of one moment are one."""
        if not self.queued:
            self.queued = True
            self._state.agenda.after(0, self._read_queued)

    def after(self, delay_us: int) -> None:
        """Asks for a read after a delay, unless another one is scheduled."""
        if not self._scheduled:
            self._scheduled = True
            self._state.agenda.after(delay_us, self._read_scheduled)

    def after_backoff(self) -> None:
        """Asks for a read after the backoff, which doubles."""
        delay_us = self._backoff_us
        self._backoff_us = min(delay_us * 2, self._state.settings.backoff_max_us)
        self.after(delay_us)

    def reset_backoff(self) -> None:
        """Lets the next backoff be the shortest again."""
        self._backoff_us = self._state.settings.backoff_initial_us

    def _read_queued(self, _: object) -> None:
        self.queued = False
        self._read_more()

    def _read_scheduled(self, _: object) -> None:
        self._scheduled = False
        self._read_more()
