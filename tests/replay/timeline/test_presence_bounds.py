"""Which changes certainly come before a reset."""

import numpy as np
import pytest

from dispatch_audit.pipeline.packing.events import Code, no_events
from dispatch_audit.pipeline.packing.membership_rows import (
    CLOSED_BY_BROKER,
    ChangeKind,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket, Brackets
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.presence_bounds import precedence


def _brackets() -> Brackets:
    held, seq = HeldRows(), np.arange(40)
    rows = no_events()._replace(seq=seq, ts_us=100 * seq, code=np.full(seq.size, Code.OTHER))
    held.push(rows, np.full(seq.size, -1))
    return Brackets(held, skew_us=10)


AMONG = _brackets()


def _bracket(
    since: int, until: int, kind: ChangeKind, consumer: int, reason: str = "", join: Bracket | None = None
) -> Bracket:
    row = MembershipEvent(since, since * 100, kind, False, consumer, f"c{consumer}", False, False, (), reason)
    return Bracket(row, AMONG, start=TracePoint(since, since * 100), end=TracePoint(until, until * 100), join=join)


@pytest.mark.parametrize(
    ("of_the_other", "of_it", "certainly_before"),
    [(CLOSED_BY_BROKER, "", False), (CLOSED_BY_BROKER, CLOSED_BY_BROKER, True), ("", "", True)],
)
def test_who_left_by_itself_may_have_come_and_gone_after_a_reset_that_names_whom_it_closed(
    of_the_other: str, of_it: str, certainly_before: bool
) -> None:
    there = _bracket(1, 2, "join", 1)
    there.placed = there.start
    other = _bracket(11, 21, "leave", 1, of_the_other, there)
    reset = _bracket(10, 20, "reset", -1, "seek")
    join = _bracket(12, 22, "join", 2)
    leave = _bracket(15, 30, "leave", 2, of_it, join)
    join.leave = leave
    known = precedence([other, reset, join, leave], ())
    assert known[0, 1]
    assert (known[2, 1], known[3, 1]) == (certainly_before, certainly_before)
    assert not known[1, 2:].any()
