"""Stalls without a cause that dispatches before and after them may show to be pauses of a rate limit."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.kept_intervals import KeptIntervals
from dispatch_audit.pipeline.replay.blocking.pace import DispatchPace
from dispatch_audit.pipeline.replay.blocking.rates import RecentDispatches, Sent
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import JOINED, RATE
from dispatch_audit.pipeline.replay.blocking.stalls.stalls import limited
from dispatch_audit.pipeline.replay.durations import HORIZON_US
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.state.records import Ints

_BY_ENTRY: Final = "dispatchThrottlingOnBatchMessageEnabled"
_BY_TRAFFIC: Final = "the traffic, not by a setting"
# The number of stalls that are remembered, and of limits that rows say late.
_STALLS_MAX: Final = 64
_CHANGES_MAX: Final = 16


@checkpointed("unsettled_stalls")
@dataclass(eq=False, slots=True)
class UnsettledStalls:
    """Takes the stalls as they are found, and hands them on to the intervals once no dispatch can say more of them.

    Attributes:
        waiting: those that later dispatches may explain.
    """

    _in_force: SettingsInForce
    _intervals: KeptIntervals
    waiting: list[Blocked] = field(default_factory=list)
    _own: deque[Interval] = field(default_factory=lambda: deque(maxlen=_STALLS_MAX))
    _pace: DispatchPace = field(default_factory=DispatchPace)
    _recent: RecentDispatches = field(default_factory=RecentDispatches)
    # Between which rows a limit came into force, and the doubt that this leaves.
    _said_late: deque[tuple[int, int, str]] = field(default_factory=lambda: deque(maxlen=_CHANGES_MAX))
    _sent_before: int = 0  # dispatches before those of the last rows
    _sent_us: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # the times of these

    def note(self, parts: Iterable[Blocked]) -> None:
        """Takes the parts of a stall, with a cause or without one."""
        for waited in parts:
            self.settle(waited.span.to_ts - HORIZON_US)
            if not waited.is_finding:
                self._intervals.note([waited])
                continue
            sent_before = self._sent_before + int(np.count_nonzero(self._sent_us <= waited.span.from_ts))
            part = waited._replace(detail={**waited.detail, "sent_before": sent_before})
            if part.kind.provable or part.kind.doubt == JOINED:
                self._own.append(part.span)
            limit = self._recent.explaining(part.span, self._in_force.is_on(_BY_ENTRY))
            if limit is not None:
                self._intervals.note([limited(part, limit)])
                continue
            if self._intervals.open_until is not None:
                self._intervals.note([self._doubted(part)])
            elif self._intervals.is_known(part.span):
                self.waiting.append(part)

    def dispatched(self, sent: Sent) -> None:
        """Takes the dispatches of the next rows; there may be none."""
        if sent.ts_us.size:
            self._sent_before, self._sent_us = self._sent_before + self._sent_us.size, sent.ts_us
            self._pace.note(sent)
            self._recent.note(sent, self._in_force.rates())

    def said_late(self, since_seq: int, seq: int, doubt: str) -> None:
        """Notes a limit that the row `seq` says and that came into force after `since_seq`, and the doubt it leaves."""
        self._said_late.append((since_seq, seq, doubt))

    def rates_said_late(self) -> None:
        """Notes that limits of the rate may have been in force before the next dispatches, and owe for others."""
        self._recent.said_late()

    def settle(self, until_us: int = NEVER) -> None:
        """Hands on the stalls that ended by a time: later dispatches say nothing of them. At a window's end: all."""
        while self.waiting and self.waiting[0].span.to_ts <= until_us:
            self._intervals.keep(self._doubted(self.waiting.pop(0)))

    def _doubted(self, found: Blocked) -> Blocked:
        """A stall with what the pace of dispatches and the rows of settings say of it."""
        # A limit may have been in force by then, although the row that says so comes later.
        said_late = (doubt for since_seq, seq, doubt in self._said_late if since_seq <= found.span.from_seq < seq)
        if not found.detail["doubt"]:
            doubt = next(said_late, "") or (RATE if self._recent.may_explain(found.span) else "")
            found = found._replace(detail={**found.detail, "doubt": doubt})
        paced = None if self._in_force.rules_out_rates() else self._pace.during(found.span)
        return found if paced is None else limited(found, {"shown_by": _BY_TRAFFIC, "messages": paced.messages})

    def nobody_passed_us(self, from_us: int, to_us: int) -> int:
        """How long nothing was sent to anybody between two times, so that no single hash was passed over.

        Of stalls that are not provable, only those count in which consumers may have been recently joined (6.1).
        """
        return sum(max(0, min(stall.to_ts, to_us) - max(stall.from_ts, from_us)) for stall in self._own)

    def interrupted(self) -> None:
        """Forgets dispatches: rows may be missing."""
        self._pace.interrupted()
        self._recent.forget()

    def forget(self, reported_seq: int, recent_us: int) -> None:
        """Drops stalls up to the row `reported_seq`, and paces of before `recent_us`."""
        self.waiting = [stall for stall in self.waiting if stall.span.to_seq > reported_seq]
        self._pace.forget(recent_us)
