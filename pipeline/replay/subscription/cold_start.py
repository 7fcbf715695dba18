"""Selects the rows that may be judged in a trace that does not begin with the first join, and after a gap.

A wrong guess about what was before would be a false violation, so nothing is judged until the trace itself leaves no
doubt: docs/REPLAY.md, "How complete a trace is" and "Across a gap". First all connected consumers are `known`. From the
next publish on rows are admitted, but those of older entries and of consumers that nothing shows. Waiting and draining
hashes depend on all entries, so they are judged once mark-delete has passed the older ones (`settled`), or a snapshot
shows that the cursor has read nothing but what is deleted.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer, RangesOfOne, report_agrees
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.membership_rows import BEFORE_ROWS, TracePoint
from dispatch_audit.pipeline.packing.snapshot import Position, Snapshot
from dispatch_audit.pipeline.replay.durations import READ_US

# Rows that concern no entry, and that the replay needs from the first one on.
_MEMBERSHIP = np.arange(Code.JOIN_START, Code.RESET_END + 1)


@checkpointed("unseen_rows")
class UnseenRows(NamedTuple):
    """Rows that are missing, in a gap or before the trace, and how long that matters to verdicts."""

    begin: TracePoint  # the first row of the gap, and the time of that row; before the trace its seq is -1
    until_seq: int  # the last row
    # The point from which on the rows after it explain everything that the broker does; None: not yet.
    settled: TracePoint | None = None


@checkpointed("cold_start")
@dataclass(eq=False, slots=True)
class ColdStart:
    """Admits the rows of one subscription: all up to the first gap, if the trace begins with the first join.

    It takes whether the trace does, and by how many microseconds a publish may be recorded after its dispatch.
    """

    _complete: bool
    _late_us: int
    censored: int = 0  # rows that were not admitted
    censored_by_gaps: int = 0  # those of them in a gap or after one
    interrupted: bool = False  # whether there was a gap
    known: bool = False  # whether all consumers and their hashes are known
    settled: bool = False  # whether admitted rows explain everything that the broker does
    # What of the missing rows still matters to verdicts, in the order in which it begins.
    unseen: list[UnseenRows] = field(default_factory=list)
    _open: bool = False
    _highest: Position = (-1, -1)
    _ranges: dict[int, RangesOfOne] = field(default_factory=dict)
    _inside: bool = False  # whether rows are missing at this point
    _members_missing: bool = False  # whether joins, leaves or resets are among them
    _missing_until: int = -1  # the last row that may be missing
    _opens_us: int | None = None  # the time from which on publishes are new; None: not known yet

    def __post_init__(self) -> None:
        self.known = self.settled = self._open = self._complete
        self.unseen = [] if self._complete else [UnseenRows(BEFORE_ROWS, BEFORE_ROWS.seq)]

    def begin_gap(self, gap: Gap, at: TracePoint, highest: Position) -> None:
        """Notes that rows are missing from here on; `highest` is the highest position so far."""
        self.unseen.append(UnseenRows(at, gap.until_seq))
        self.interrupted = True
        self.settled = self._open = False
        self._inside = True
        self._highest = max(self._highest, highest)
        self._missing_until = max(self._missing_until, gap.until_seq)
        if gap.loses_members:
            self._members_missing = True
            self.known = False
            self._ranges = {}

    def end_gap(self, gap: Gap) -> None:
        """Notes that rows are complete again after a gap, unless another gap goes on."""
        if gap.until_seq >= self._missing_until:
            self._inside = self._members_missing = False
            self._opens_us = None

    def admitted(self, events: Events, strange: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the next rows, by seq, may be judged; `strange` are those of consumers that never joined."""
        if self._complete and not self.interrupted:
            return ~strange
        kept = np.isin(events.code, _MEMBERSHIP)
        since = self._opened_at(events)
        if since < events.code.size:
            ledger, entry = self._highest
            later = (events.ledger > ledger) | ((events.ledger == ledger) & (events.entry > entry))
            # Acknowledgements cannot move mark-delete on from a position below entries that are not admitted.
            reached = (events.code == Code.MARK_DELETE) & (events.ledger == ledger) & (events.entry == entry)
            judged = (later | reached | (events.ledger < 0)) & ~strange
            # Earlier flow rows are missing, so permits cannot be counted; snapshots report them.
            judged &= events.code != Code.FLOW
            kept[since:] |= judged[since:]
        # Events made of one row of the trace share its seq.
        on_entries = ~np.isin(events.code, (*_MEMBERSHIP, Code.MARK_DELETE, Code.OTHER))
        censored = np.setdiff1d(events.seq[on_entries & ~kept], events.seq[kept]).size
        self.censored += censored
        self.censored_by_gaps += censored if self.interrupted else 0
        return kept

    def _opened_at(self, events: Events) -> int:
        """The index of the row from which on entries are judged; the number of rows if there is none."""
        if self._open:
            return 0
        publishes = np.flatnonzero(self._new_publishes(events))
        until = int(publishes[0]) + 1 if publishes.size else events.code.size
        self._open = bool(publishes.size)
        seen = events.rows(0, until)
        if seen.ledger.size:
            highest = int(np.lexsort((seen.entry, seen.ledger))[-1])
            self._highest = max(self._highest, (int(seen.ledger[highest]), int(seen.entry[highest])))
        return until

    def _new_publishes(self, events: Events) -> NDArray[np.bool_]:
        """Which rows are publishes of entries that no row before them can concern."""
        found: NDArray[np.bool_] = np.isin(events.code, (Code.PUBLISH, Code.PUBLISH_DELAYED))
        if not self.known or self._inside:
            return np.zeros_like(found)
        if self._missing_until >= 0:
            # The publish of an entry that was sent in the gap may be recorded only now.
            if self._opens_us is None and events.ts_us.size:
                self._opens_us = int(events.ts_us[0]) + self._late_us
            found &= events.ts_us >= (self._opens_us or 0)
        return found

    def restart(self, at: TracePoint) -> None:
        """Notes that all consumers were disconnected, so that the trace has the joins of all later ones."""
        self.known |= not self._members_missing
        if self.known:
            self.explain(at)  # no earlier entry is pending in the new dispatcher

    def explain(self, at: TracePoint) -> None:
        """Notes that the rows that are there explain everything that the broker does from here on."""
        self.unseen = [gap._replace(settled=at) if gap.settled is None else gap for gap in self.unseen]

    def forget(self, recent_us: int) -> None:
        """Restarts the counts, and drops what concerns no read after a time."""
        self.censored = self.censored_by_gaps = 0
        self.unseen = [gap for gap in self.unseen if gap.settled is None or gap.settled.ts_us > recent_us - READ_US]

    def look(self, snapshot: Snapshot, connected: Set[int], mapped: RangesByConsumer) -> bool:
        """Takes a snapshot of the broker; returns whether all is `settled` if the replay agrees with it.

        `connected` are the consumers that have joined and not left; `mapped` has the ranges that follow from joins.
        """
        if self.settled or self._inside or snapshot.seq_begin <= self._missing_until:
            return False
        for consumer in snapshot.consumers:
            if consumer.ranges is not None:
                self._ranges[consumer.consumer] = consumer.ranges
        if {consumer.consumer for consumer in snapshot.consumers} == connected:
            reported = ((n, self._ranges.get(n)) for n in connected)
            self.known |= all(of_one is not None and report_agrees(of_one, n, mapped) for n, of_one in reported)
        mark_delete = snapshot.mark_delete
        if self.known and mark_delete is not None and snapshot.read_position == (mark_delete[0], mark_delete[1] + 1):
            # The cursor has read nothing that is not deleted, so no row before concerns an entry from here on.
            self._open, self._highest = True, mark_delete
        return self._open and mark_delete is not None and mark_delete >= self._highest
