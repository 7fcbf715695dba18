"""Membership changes as the trace records them: an early side, a late side, or one of the two.

    join   start = SUBSCRIBE received          end = consumerCreated
    leave  start = close received              end = consumerClosed        (closed_by_broker: start only, about then)
    reset  start = seek, unload or transfer    end = done, or the first join that follows

The true moment lies between the sides; with one missing, the other and the recorder's skew bound it (TRACE_FORMAT).
"""

from typing import Literal, NamedTuple

Kind = Literal["join", "leave", "reset"]

# Resets that start everything anew; the others only move mark-delete (TRACE_FORMAT, `reason`).
RESTARTS = frozenset({"seek", "unload", "transfer"})

# A leave that has no end, recorded about when it happened: a little before or after.
CLOSED_BY_BROKER = "closed_by_broker"


class MembershipEvent(NamedTuple):
    """A join, leave or reset row of the trace, with what only such rows carry."""

    seq: int
    ts_us: int
    kind: Kind
    late: bool
    consumer: int
    name: str
    sticky: bool
    out_of_order: bool
    ranges: tuple[tuple[int, int], ...]
    reason: str


class TracePoint(NamedTuple):
    """A place in the trace: behind the row `seq`."""

    seq: int
    ts_us: int
