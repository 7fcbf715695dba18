"""Gaps: intervals of seq in which a recorder dropped rows (TRACE_FORMAT, "Gaps").

A gap travels as an event of code GAP, with its last seq in `entry`, the number of rows in `value`, and in `word` what
was lost. When rows are put in order, gaps are taken out: a gap has the seq of a lost row, and several gaps may have the
same seq. Rows `settings` and those in which a recorder speaks of itself are taken out too: they change no entry, and
their details travel beside the events.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Events, among
from dispatch_audit.pipeline.packing.narrow_events import NarrowEvents
from dispatch_audit.pipeline.packing.repeated_rows import Refused, repeated_row

# Bits of `Events.word`.
_MEMBERS_LOST: Final = 1
_SNAPSHOTS_LOST: Final = 2
OF_TOPIC: Final = 4
"""In `Events.word` of a gap, of settings or of a recorder's row: it holds for all subscriptions of its topic."""
_SETTINGS_LOST: Final = 8
_NAMED: Final = 16
_MEMBERSHIP: Final = frozenset({"join", "leave", "reset"})
# A name that format 1 does not have may stand for any of its events.
_OF_ENTRIES: Final = frozenset({"publish", "dispatch", "ack", "redeliver", "flow"})
_BESIDE: Final = among(Code.SETTINGS, Code.RECORDER)
_ASIDE: Final = among(Code.GAP, Code.SETTINGS, Code.RECORDER)
_KNOWN: Final = _MEMBERSHIP | _OF_ENTRIES | {"stats", "settings", "heartbeat", "hang"}


@checkpointed("gap")
class Gap(NamedTuple):
    """An interval of seq in which rows of one subscription, or publishes of its topic, may be missing."""

    seq: int  # the first row lost
    until_seq: int  # the last row lost
    ts_us: int  # the time of the first row lost
    dropped: int  # the number of rows lost
    lost: int  # what was lost, as bits

    @property
    def loses_members(self) -> bool:
        """Whether joins, leaves or resets may be missing."""
        return self.lost & _MEMBERS_LOST != 0

    @property
    def loses_snapshots(self) -> bool:
        """Whether snapshots may be missing."""
        return self.lost & _SNAPSHOTS_LOST != 0

    @property
    def loses_settings(self) -> bool:
        """Whether rows `settings` are missing, as the recorder says."""
        return self.lost & _SETTINGS_LOST != 0

    @property
    def may_lose_settings(self) -> bool:
        """Whether rows `settings` may be missing, if the recorder writes any: it does not say what was lost."""
        return self.loses_settings or self.lost & _NAMED == 0


def note_gaps(batch: pa.RecordBatch, events: Events) -> None:
    """Fills in the columns of the gaps among events, and which rows hold for all subscriptions of their topic."""
    at = np.flatnonzero(_BESIDE[events.code])
    if at.size:
        nameless = pc.is_null(batch.column("subscription").take(pa.array(at))).to_numpy(zero_copy_only=False)
        events.word[at] = nameless * OF_TOPIC
    at = np.flatnonzero(events.code == Code.GAP)
    if not at.size:
        return
    names = ("subscription", "seq_end", "dropped", "dropped_events")
    rows = batch.select(names).take(pa.array(at)).to_pylist()
    events.entry[at] = [row["seq_end"] for row in rows]
    events.value[at] = [row["dropped"] for row in rows]
    events.word[at] = [_lost(row["dropped_events"]) | (row["subscription"] is None) * OF_TOPIC for row in rows]


def _lost(names: Sequence[str] | None) -> int:
    events = frozenset(names or ())
    if not events or not events <= _KNOWN:
        return _MEMBERS_LOST | _SNAPSHOTS_LOST
    members, snapshots = bool(events & _MEMBERSHIP) * _MEMBERS_LOST, ("stats" in events) * _SNAPSHOTS_LOST
    return members | snapshots | ("settings" in events) * _SETTINGS_LOST | _NAMED


def of_topics(events: Events) -> NDArray[np.bool_]:
    """Which events are none of an entry, and hold for all subscriptions of their topic."""
    found: NDArray[np.bool_] = _ASIDE[events.code] & (events.word & OF_TOPIC != 0)
    return found


def apart(events: NarrowEvents) -> tuple[NarrowEvents, list[Gap], list[Refused]]:
    """The events of entries and consumers, the gaps in the order of seq, and the repetitions of gaps."""
    code = events.column("code")
    is_gap = code == Code.GAP
    aside = _ASIDE[code]
    if not aside.any():
        return events, [], []
    of_gaps = events.take(is_gap & (events.column("part") == 0)).wide()
    columns = (of_gaps.seq, of_gaps.entry, of_gaps.ts_us, of_gaps.value, of_gaps.word)
    found = Counter(Gap(*values) for values in zip(*(column.tolist() for column in columns), strict=True))
    repeated = [repeated_row(gap.seq) for gap, times in found.items() for _ in range(times - 1)]
    return events.take(~aside), sorted(found), sorted(repeated)
