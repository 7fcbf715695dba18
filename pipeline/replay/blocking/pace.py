"""Pauses of limits of the dispatch rate that only the traffic shows.

A limit that no setting claims may be a policy of the namespace that nobody recorded. About the same number of entries,
or of messages, is sent between pauses of about the same length, again and again. A stall that heals once does not look
like that.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.blocking.rates import Sent
from dispatch_audit.pipeline.replay.durations import HORIZON_US, PAUSE_MAX_US, PAUSE_MIN_US

_BURSTS: Final = 3
# Bursts of few messages show a limit only if they are equal: a few may be those published during the pause.
_BURST_MIN: Final = 10
_FEW_MIN: Final = 3
_FEW_ALIKE: Final = 1
# All bursts that show a limit have to come within the horizon.
_LONG_PAUSE_MAX_US: Final = HORIZON_US // _BURSTS
_ALIKE: Final = 0.2


@checkpointed("burst")
class _Burst(NamedTuple):
    """Dispatches without a pause between them, and the time of the dispatch that ends the pause after them."""

    from_us: int
    to_us: int
    entries: int
    messages: int
    next_us: int

    def pays_within(self, messages: int, period_us: float) -> bool:
        """Whether a limit of so many messages in a period takes the whole pause after it to pay for it."""
        return self.next_us - self.to_us <= max(1, self.messages / messages) * period_us


@checkpointed("paced")
class Paced(NamedTuple):
    """A time in which dispatches came in bursts of one size, with one pause after each.

    Attributes:
        from_us: the beginning of the first burst, or of the pause before it if that is one of the limit.
        to_us: the end of the last burst, or of the pause after it.
        messages: the messages of a burst.
    """

    from_us: int
    to_us: int
    messages: int


@checkpointed("dispatch_pace")
class DispatchPace:
    """Finds bursts of one size, as a rate limit lets them."""

    __slots__ = ("_open", "_paced", "_recent")

    def __init__(self) -> None:
        self._open: _Burst | None = None
        self._recent: deque[_Burst] = deque(maxlen=_BURSTS + 1)
        self._paced: list[Paced] = []

    def note(self, sent: Sent) -> None:
        """Takes the dispatches of the next rows, at least one."""
        starts = [0, *(np.flatnonzero(np.diff(sent.ts_us) >= PAUSE_MIN_US) + 1).tolist(), sent.ts_us.size]
        for first, after in pairwise(starts):
            begin_us, end_us = int(sent.ts_us[first]), int(sent.ts_us[after - 1])
            entries, messages = after - first, int(sent.messages[first:after].sum())
            before = self._open
            if before is not None and begin_us - before.to_us < PAUSE_MIN_US:
                both = before.entries + entries, before.messages + messages
                self._open = _Burst(before.from_us, max(before.to_us, end_us), *both, 0)
                continue
            if before is not None:
                self._end(before._replace(next_us=begin_us))
            self._open = _Burst(begin_us, end_us, entries, messages, 0)

    def interrupted(self) -> None:
        """Forgets the bursts that are going on: rows may be missing."""
        self._open = None
        self._recent.clear()

    def forget(self, before_us: int) -> None:
        """Drops what ended before a time."""
        self._paced = [paced for paced in self._paced if paced.to_us >= before_us]

    def during(self, pause: Interval) -> Paced | None:
        """The time of bursts of one size that a pause belongs to; None: there is none."""
        for paced in self._paced:
            if paced.from_us <= pause.from_ts and pause.to_ts <= paced.to_us:
                return paced
        return None

    def _end(self, burst: _Burst) -> None:
        self._recent.append(burst)
        if len(self._recent) <= _BURSTS:
            return
        first, *run = self._recent
        cycles = [each.next_us - each.from_us for each in run[:-1]]
        messages = [each.messages for each in run]
        longest_us = max(each.next_us - each.to_us for each in run[:-1])
        same_size = _alike(messages) or _alike([each.entries for each in run])
        equal = min(messages) >= _FEW_MIN and max(messages) - min(messages) <= _FEW_ALIKE
        many = same_size and min(messages) >= _BURST_MIN and longest_us <= PAUSE_MAX_US
        if not (many or (equal and longest_us <= _LONG_PAUSE_MAX_US)) or not _alike(cycles):
            return
        typical, period_us = sorted(messages)[_BURSTS // 2], (1 + _ALIKE) * max(cycles)
        # The pauses at both ends may be others: a limit takes as long as it pays for the burst.
        from_us = first.to_us if first.pays_within(typical, period_us) else run[0].from_us
        over_us = burst.next_us if burst.pays_within(typical, period_us) else burst.to_us
        found = Paced(from_us, over_us, typical)
        if self._paced and found.from_us <= self._paced[-1].to_us:
            found = found._replace(from_us=self._paced.pop().from_us)
        self._paced.append(found)


def _alike(values: Sequence[int]) -> bool:
    """Whether values differ by no more than a limiter lets them."""
    return max(values) - min(values) <= max(2, _ALIKE * max(values))
