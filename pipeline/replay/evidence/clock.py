"""Whether the clock of a recorder went back, so that times of its rows say nothing of how long anything took.

Rows of one recorder are numbered in the order in which they were written. A thread may take the time of its row a
moment before others take theirs: in 83 recordings no row was more than 0.2 s behind the latest before it.
"""

from dataclasses import dataclass

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.durations import CLOCK_BACK_US
from dispatch_audit.pipeline.replay.state.records import Ints


@checkpointed("clock")
@dataclass(eq=False, slots=True)
class Clock:
    """The latest time so far, and where rows were earlier than that."""

    # The first row that is `CLOCK_BACK_US` or more behind a row before it; None: there is none.
    back_from_seq: int | None = None
    back_us: int = 0  # how far rows were behind at most, from there on
    _latest_us: int = 0

    def note(self, seq: Ints, ts_us: Ints) -> None:
        """Takes the next rows in the order of seq, at least one; times are microseconds."""
        latest = np.maximum.accumulate(np.append(self._latest_us, ts_us))[1:]
        behind = latest - ts_us
        self._latest_us = int(latest[-1])
        back = np.flatnonzero(behind >= CLOCK_BACK_US)
        if back.size:
            self.back_from_seq = int(seq[back[0]]) if self.back_from_seq is None else self.back_from_seq
            self.back_us = max(self.back_us, int(behind.max()))

    def doubt(self, seq: int) -> str:
        """Why times do not show what was up to a row, as a clause; empty: they do."""
        if self.back_from_seq is None or seq < self.back_from_seq:
            return ""
        return f"the clock of the recorder went back, by up to {self.back_us / 1e6:.3f} s, so times say nothing of it"
