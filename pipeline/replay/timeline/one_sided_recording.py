"""Notes where a recorder writes only one side of events, so that the trace does not show what was pending at a moment.

With both sides the trace shows for almost every entry whether it was pending when a snapshot was taken. With one side,
this is open for events within the recorder skew (TRACE_FORMAT, "Phases").
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds

# Both sides of dispatches and of acknowledgements.
_SIDES: Final = ((Code.DISPATCH_START, Code.DISPATCH_END), (Code.ACK_START, Code.ACK_END))
_ALL: Final = frozenset(int(code) for sides in _SIDES for code in sides)
_TRAFFIC = (
    "the recorder wrote only one side of dispatches or acknowledgements, so the trace does not show which entries "
    "were pending at that moment"
)
_CHANGE = (
    "the recorder wrote only one side of a join or leave at about that moment, so the trace does not show whether it "
    "had already taken effect"
)
# The number of changes that are kept: only the latest ones can concern a snapshot.
_CHANGES_MAX = 100


@checkpointed("one_sided_recording")
@dataclass(eq=False, slots=True)
class OneSidedRecording:
    """The missing sides of a subscription's rows."""

    _seen: set[int] = field(default_factory=set)  # codes among those of the sides
    _changes: list[Bounds] = field(default_factory=list)

    def note_traffic(self, events: Events) -> None:
        """Takes the next rows."""
        self._seen.update(code for code in _ALL - self._seen if events.has(code))

    @property
    def of_traffic(self) -> bool:
        """Whether only one side of dispatches, or of acknowledgements, is recorded, as far as the rows so far show."""
        return any((start in self._seen) != (end in self._seen) for start, end in _SIDES)

    def note_changes(self, changes: Sequence[Bracket], bounds: Sequence[Bounds]) -> None:
        """Takes the next joins and leaves, and the rows between which each took effect."""
        one_sided = [b for change, b in zip(changes, bounds, strict=True) if change.start is None or change.end is None]
        self._changes = [*self._changes, *one_sided][-_CHANGES_MAX:]

    def about(self, snapshot: Snapshot) -> str:
        """Why the trace does not show what was pending when a snapshot was taken, as a clause; empty: it does."""
        if self.of_traffic:
            return _TRAFFIC
        near = any(after <= snapshot.seq and snapshot.seq_begin <= before for after, before in self._changes)
        return _CHANGE if near else ""
