"""Membership changes in the trace: each has an early side, a late side, or both.

    join   start = SUBSCRIBE received          end = consumerCreated
    leave  start = close received              end = consumerClosed        (closed_by_broker: start only, about then)
    reset  start = seek, unload or transfer    end = done, or the first join that follows

The true moment lies between the sides; if one is missing, the other and the recorder's skew bound it (TRACE_FORMAT).
"""

from typing import Final, Literal, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed

ChangeKind = Literal["join", "leave", "reset"]

NEVER: Final = 1 << 62
"""After every seq and every time."""

# Resets that replace or reset the dispatcher; the others only move mark-delete (TRACE_FORMAT, `reason`).
RESTARTS = frozenset({"seek", "unload", "transfer", "other_type"})

# The reason of a leave without an end, which is recorded a little before or after it happens.
CLOSED_BY_BROKER = "closed_by_broker"


@checkpointed("membership_event")
class MembershipEvent(NamedTuple):
    """A join, leave or reset row of the trace, with the columns that only such rows have."""

    seq: int
    ts_us: int
    kind: ChangeKind
    late: bool
    consumer: int
    name: str
    sticky: bool
    out_of_order: bool
    ranges: tuple[tuple[int, int], ...]
    reason: str
    error: str = ""


@checkpointed("trace_point")
class TracePoint(NamedTuple):
    """A point in the trace: right after the row `seq`, at the time of that row."""

    seq: int
    ts_us: int

    def not_before(self, ts_us: int) -> "TracePoint":
        """The point after the same row, at a time that is not before `ts_us`."""
        return self if self.ts_us >= ts_us else TracePoint(self.seq, ts_us)


BEFORE_ROWS: Final = TracePoint(-1, 0)
"""Before the first row of the trace."""
