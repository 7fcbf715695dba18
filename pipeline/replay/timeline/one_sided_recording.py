"""Where a recorder writes one side of what happens only: then the trace does not show what was pending at a moment.

With both sides it is known of almost every entry whether it was pending when a snapshot was taken. With one side, what
happened within the recorder skew about it is open (TRACE_FORMAT, "Phases").
"""

from collections.abc import Sequence

import numpy as np

from pipeline.replay.packing.events import Code, Events
from pipeline.replay.packing.snapshot import Snapshot
from pipeline.replay.timeline.brackets import Bracket
from pipeline.replay.timeline.change_points import Bounds

_STARTS = (Code.DISPATCH_START, Code.ACK_START)
_ENDS = (Code.DISPATCH_END, Code.ACK_END)
_TRAFFIC = "only one side of dispatches and acknowledgements was recorded, so what was pending at that moment is open"
_CHANGE = "only one side of a join or leave about then was recorded, so it is open what had happened by that moment"


class OneSidedRecording:
    """Which sides of a subscription's rows are missing."""

    def __init__(self) -> None:
        """Starts in front of the first row."""
        self._starts = False
        self._ends = False
        self._changes: list[Bounds] = []

    def note_traffic(self, events: Events) -> None:
        """Takes the next rows."""
        if not (self._starts and self._ends):
            self._starts |= bool(np.isin(events.code, _STARTS).any())
            self._ends |= bool(np.isin(events.code, _ENDS).any())

    def note_changes(self, changes: Sequence[Bracket], bounds: Sequence[Bounds]) -> None:
        """Takes the next joins and leaves, and between which rows each took effect."""
        sided = [b for change, b in zip(changes, bounds, strict=True) if change.start is None or change.end is None]
        # Of the many of a long trace only the latest can concern a snapshot.
        self._changes = [*self._changes, *sided][-_CHANGES_MAX:]

    def about(self, snapshot: Snapshot) -> str:
        """Why it is open what was pending when a snapshot was taken, as a clause; empty: it is not."""
        if self._starts != self._ends:
            return _TRAFFIC
        about_then = any(after <= snapshot.seq and snapshot.seq_begin <= before for after, before in self._changes)
        return _CHANGE if about_then else ""


_CHANGES_MAX = 100
