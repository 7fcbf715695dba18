"""What recorders say of themselves: whether the broker ran, who held its locks, whether the log ends in order.

A thread that takes no lock of the broker writes heartbeats. Where they come in time and snapshots do not, the process
ran, and whatever needs the locks of the dispatcher waited (TRACE_FORMAT).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.rows_aside import RecorderRow

# Times the shortest distance of two heartbeats: one that is later was held up.
_LATE: Final = 1.5
# A pause may hide between two heartbeats, and hardly in each of several distances.
_BEATS_MIN: Final = 3
# No stall needs more.
_KEPT_MAX: Final = 256


@checkpointed("hang")
class Hang(NamedTuple):
    """A snapshot that got no lock of the subscription and its dispatcher for long."""

    begun_us: int  # when it began
    until_us: int  # when it ended; of one that hangs, the last time at which the recorder still ran
    over: bool  # whether it has ended
    waits_for: str  # which locks it waited for, and who held them; empty: no row says
    seq: int  # the last row about it


@checkpointed("running")
class Running(NamedTuple):
    """A time in which heartbeats came one after the other."""

    from_us: int
    to_us: int
    beats: int


@checkpointed("broker_signs")
@dataclass(eq=False, slots=True)
class BrokerSigns:
    """The rows of recorders about themselves so far."""

    ended_seq: int = -1  # the last row that says that its recorder was closed in order; -1: there is none
    last_seq: int = -1  # the last row; -1: there is none
    last_us: int = 0  # its time
    hangs: list[Hang] = field(default_factory=list)  # the latest ones, in the order of their last rows
    _period_us: int | None = None
    _running: list[Running] = field(default_factory=list)

    def note(self, rows: Sequence[RecorderRow]) -> None:
        """Takes the next rows, in the order of seq."""
        for row in rows:
            self.last_seq, self.last_us = row.seq, row.ts_us
            if row.event == "hang":
                known = next((hang for hang in self.hangs if hang.begun_us == row.begun_us), None)
                waits_for = row.waits_for or (known.waits_for if known is not None else "")
                others = [hang for hang in self.hangs if hang is not known]
                self.hangs = [*others, Hang(row.begun_us, row.ts_us, row.over, waits_for, row.seq)]
                continue
            self.hangs = [hang if hang.over else hang._replace(until_us=row.ts_us) for hang in self.hangs]
            if row.event == "end":
                self.ended_seq = row.seq
            else:
                self._beat(row.ts_us)
        del self._running[:-_KEPT_MAX], self.hangs[:-_KEPT_MAX]

    def _beat(self, ts_us: int) -> None:
        last = self._running[-1] if self._running else None
        apart = 0 if last is None else ts_us - last.to_us
        if apart > 0:
            self._period_us = min(apart, self._period_us or apart)
        if last is None or self._period_us is None or apart > self._period_us * _LATE:
            self._running.append(Running(ts_us, ts_us, 1))
        elif apart > 0:
            self._running[-1] = last._replace(to_us=ts_us, beats=last.beats + 1)

    def without_running(self, intervals: Iterable[tuple[int, int]]) -> int:
        """How long the intervals are in all but for times in which the process certainly ran, in microseconds."""
        sure = [running for running in self._running if running.beats >= _BEATS_MIN]
        return sum(
            end - begin - sum(max(min(end, ran.to_us) - max(begin, ran.from_us), 0) for ran in sure)
            for begin, end in intervals
        )

    def hang_within(self, from_us: int, to_us: int) -> Hang | None:
        """The longest hang in an interval; None: there is none."""
        found = [hang for hang in self.hangs if hang.begun_us < to_us and hang.until_us > from_us]
        return max(found, key=lambda hang: hang.until_us - hang.begun_us, default=None)
