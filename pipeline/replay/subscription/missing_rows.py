"""The rows of one subscription that are missing, in gaps or before the trace, and for how long that matters."""

from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import BEFORE_ROWS, TracePoint


@checkpointed("unseen_rows")
class UnseenRows(NamedTuple):
    """Rows that are missing, in a gap or before the trace, and how long that matters to verdicts.

    Attributes:
        begin: the first row of the gap, and the time of that row; before the trace its seq is -1.
        until_seq: the last row.
        settled: the point from which on the rows after it explain everything that the broker does; None: not yet.
    """

    begin: TracePoint
    until_seq: int
    settled: TracePoint | None = None


@checkpointed("missing_rows")
class MissingRows:
    """What is missing so far.

    Attributes:
        unseen: what of it still matters to verdicts, in the order in which it begins.
    """

    __slots__ = ("unseen",)

    def __init__(self, complete_from_start: bool) -> None:
        self.unseen = [] if complete_from_start else [UnseenRows(BEFORE_ROWS, BEFORE_ROWS.seq)]

    def begin(self, gap: Gap, at: TracePoint) -> None:
        """Notes that the rows of a gap are missing from here on."""
        self.unseen.append(UnseenRows(at, gap.until_seq))

    def settle(self, at: TracePoint) -> None:
        """Notes that the rows that are there explain everything that the broker does from here on."""
        self.unseen = [gap._replace(settled=at) if gap.settled is None else gap for gap in self.unseen]

    def forget(self, recent_us: int) -> None:
        """Drops what concerns no read after a time."""
        self.unseen = [gap for gap in self.unseen if gap.settled is None or gap.settled.ts_us > recent_us - READ_US]
