"""Counts the rows of a subscription, and those that could not be judged (Q6, Q26).

Recorders number the rows of all topics together and leave rows out by design. So a gap in `seq` is reported, but does
not lower the completeness.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, among
from dispatch_audit.pipeline.packing.packed_batch import Merged

_PUBLISHES = among(Code.PUBLISH, Code.PUBLISH_DELAYED)
_STARTS = among(Code.DISPATCH_START)
_ENDS = among(Code.DISPATCH_END)


class Unseen(NamedTuple):
    """What the replay could not see, or not to the end, as columns of `coverage`."""

    rows_censored: int = 0  # rows that may not be judged (`cold_start`)
    dispatches_undecided: int = 0  # dispatches of hashes whose owner is open (`undecided_ranges`)
    dispatches_without_key: int = 0  # dispatches whose key no row had named by then, so that no rule could be checked
    entries_without_publish: int = 0  # entries that were dispatched or acknowledged, without a row of their publish
    dispatches_without_end: int = 0  # dispatches without a row that shows that they reached the connection
    # Entries that still wait for their first dispatch at the end. They may be sent later.
    censored_never_dispatched: int = 0
    censored_never_acknowledged: int = 0  # entries that were dispatched, and that may be acknowledged later
    consumers_by_snapshot_only: int = 0  # consumers that only snapshots name
    rows_censored_by_gaps: int = 0  # the censored rows in a gap or after one


@checkpointed("rows_seen")
@dataclass(eq=False, slots=True)
class RowsSeen:
    """Counts the rows of one subscription, the publishes of its topic included.

    It takes the recorder's skew, and whether the rows are of a sample of the hashes.
    """

    _skew_us: int
    _sampled: bool = False
    rows: int = 0  # recorded; one that was delivered more than once counts once
    clock_steps: int = 0  # how often a row is earlier than the row before it by more than the recorder's skew
    gaps: int = 0  # rows that say that others were dropped; they are among `rows`
    publishes: int = 0  # publishes among them
    dropped: int = 0  # rows that a recorder dropped
    first_gap_us: int | None = None  # when the first gap began; None: there is none
    _starts: int = 0
    _ends: int = 0
    _first_seq: int | None = None
    _last_seq: int = 0
    _last_us: int | None = None
    _distinct: int = 0

    def add(self, part: Merged) -> None:
        """Takes the next rows in the order of seq."""
        whole = part.events.part == 0
        seq, ts_us = part.events.seq[whole], part.events.ts_us[whole].astype(np.int64)
        settings = [row.seq for row in part.settings if row.recorded]
        self.rows += seq.size + len(part.contradicted) + len(part.gaps) + len(settings)
        for gap in part.gaps:
            self.gaps, self.dropped = self.gaps + 1, self.dropped + gap.dropped
            self.first_gap_us = gap.ts_us if self.first_gap_us is None else min(self.first_gap_us, gap.ts_us)
        self._distinct += seq.size + len(settings)
        numbered = [*seq[:1].tolist(), *seq[-1:].tolist(), *settings]
        if numbered:
            self._first_seq = min(numbered) if self._first_seq is None else self._first_seq
            self._last_seq = max(numbered)
        code = part.events.code[whole]
        self.publishes += int(np.count_nonzero(_PUBLISHES[code]))
        self._starts += int(np.count_nonzero(_STARTS[code]))
        self._ends += int(np.count_nonzero(_ENDS[code]))
        if seq.size == 0:
            return
        before = ts_us[0] if self._last_us is None else self._last_us
        self.clock_steps += int(np.count_nonzero(np.diff(ts_us, prepend=before) < -self._skew_us))
        self._last_us = int(ts_us[-1])

    def leave_out(self, rows: int, seqs: int) -> None:
        """Subtracts rows that no recorder wrote, and seqs that were reserved for such rows."""
        self.rows -= rows
        self._distinct += seqs - rows

    def forget(self) -> None:
        """Restarts the counts after the last row."""
        self.rows, self.clock_steps, self._distinct = 0, 0, 0
        self.gaps, self.dropped, self.first_gap_us = 0, 0, None
        self.publishes = self._starts = self._ends = 0
        if self._first_seq is not None:
            self._first_seq = self._last_seq + 1

    @property
    def dispatches(self) -> int:
        """The number of dispatches, those that could not be judged included; a recorder may write one side only."""
        # Of a sample, rows have ends of other hashes too, because they name no key.
        return self._starts if self._sampled and self._starts else max(self._starts, self._ends)

    @property
    def seq_missing(self) -> int:
        """How many numbers between the first and the last seq no row has."""
        return 0 if self._first_seq is None else self._last_seq - self._first_seq + 1 - self._distinct
