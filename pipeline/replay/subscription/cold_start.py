"""Selects the rows that may be judged in a trace that does not begin with the first join (`complete_from_start` false).

When such a trace begins, the connected consumers, the routing and the pending entries are unknown. A wrong guess would
be a false violation, so nothing is judged until the trace itself leaves no doubt:

1. All connected consumers have joined in the trace, and the joins determine the routing: after a seek, unload or
   transfer, which disconnects all, or once a snapshot of the broker shows these consumers with these ranges.
2. From the next publish on, entries after all positions seen so far are judged. No event concerned them before, and
   the trace shows whether they are delayed. Rows of older entries are censored: neither judged nor refused.
3. Waiting, and the draining hashes in the broker's snapshots, depend on all entries. They are judged only when
   mark-delete has passed the older ones (`settled`).

Rows of consumers whose join was never seen are censored all the way.
"""

from collections.abc import Mapping, Set

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import Code, Events
from dispatch_audit.pipeline.replay.packing.snapshot import Position, Snapshot
from dispatch_audit.pipeline.replay.snapshots.comparison import RangesOfOne

_PUBLISHES = (Code.PUBLISH, Code.PUBLISH_DELAYED)
# Rows that concern no entry, and that the replay needs from the first one on.
_MEMBERSHIP = np.arange(Code.JOIN_START, Code.RESET_END + 1)
# Earlier flow rows are missing, so permits cannot be counted; snapshots report them.
_LEFT_OUT = (Code.FLOW,)


class ColdStart:
    """Admits the rows of one subscription.

    Attributes:
        censored: rows that were not admitted.
        settled: whether admitted rows explain everything that the broker does.
    """

    def __init__(self, complete: bool) -> None:
        """Takes whether the trace begins with the first join; then all rows are admitted."""
        self.censored = 0
        self.settled = complete
        self._complete = complete
        self._known = complete
        self._open = complete
        self._highest: Position = (-1, -1)
        self._ranges: dict[int, RangesOfOne] = {}

    @property
    def known(self) -> bool:
        """Whether all consumers and their hashes are known."""
        return self._known

    def admitted(self, events: Events, strange: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows may be judged.

        Args:
            events: the next rows in the order of seq.
            strange: the rows of consumers that never joined.
        """
        if self._complete:
            return ~strange
        kept = np.isin(events.code, _MEMBERSHIP)
        since = self._opened_at(events)
        if since < events.code.size:
            ledger, entry = self._highest
            later = (events.ledger > ledger) | ((events.ledger == ledger) & (events.entry > entry))
            judged = (later | (events.ledger < 0) | (events.code == Code.MARK_DELETE)) & ~strange
            judged &= ~np.isin(events.code, _LEFT_OUT)
            kept[since:] |= judged[since:]
        # Events made of one row of the trace share its seq.
        on_entries = ~np.isin(events.code, (*_MEMBERSHIP, Code.MARK_DELETE, Code.OTHER))
        self.censored += np.setdiff1d(events.seq[on_entries & ~kept], events.seq[kept]).size
        return kept

    def _opened_at(self, events: Events) -> int:
        """The index of the row from which on entries are judged; the number of rows if there is none."""
        if self._open:
            return 0
        publishes = np.flatnonzero(np.isin(events.code, _PUBLISHES)) if self._known else np.empty(0, dtype=np.int64)
        until = int(publishes[0]) + 1 if publishes.size else events.code.size
        self._open = bool(publishes.size)
        seen = events.rows(0, until)
        if seen.ledger.size:
            highest = int(np.lexsort((seen.entry, seen.ledger))[-1])
            self._highest = max(self._highest, (int(seen.ledger[highest]), int(seen.entry[highest])))
        return until

    def refuses_leave(self) -> bool:
        """Whether a leave without a join is a fault of the trace; otherwise it is counted as censored."""
        self.censored += not self._complete
        return self._complete

    def restart(self) -> None:
        """Notes that all consumers were disconnected, so that the trace has the joins of all later ones."""
        self._known = True

    def look(self, snapshot: Snapshot, connected: Set[int], mapped: Mapping[int, RangesOfOne]) -> bool:
        """Takes a snapshot of the broker; returns whether everything is `settled` because of it.

        Args:
            snapshot: the snapshot.
            connected: the numbers of the consumers that have joined and not left.
            mapped: the hash ranges of each that follow from the joins seen.
        """
        if self.settled:
            return False
        for consumer in snapshot.consumers:
            if consumer.ranges is not None:
                self._ranges[consumer.consumer] = consumer.ranges
        if {consumer.consumer for consumer in snapshot.consumers} == connected:
            self._known |= all(self._ranges.get(n) == mapped.get(n, frozenset()) for n in connected)
        passed = snapshot.mark_delete is not None and snapshot.mark_delete >= self._highest
        self.settled = self._open and passed
        return self.settled
