"""A stall is found once, with the same rows, wherever the trace is cut into windows.

What is open at the end of a window is open in its rows, and the window in which it ends has the finding.
"""

from collections.abc import Callable
from typing import Final

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, SKEW_US, Columns, Log, one_waiting, reported, tables_of
from windowed_replay import tables_of_windows

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.config import ReplayConfig

SECOND: Final = 1_000_000
SETTLED: Final = 21 * SECOND
"""Longer than dispatches may show that a rate limit caused a pause."""


def _waiting() -> Log:
    log = one_waiting()
    log.now_us += 5 * SECOND
    return log


def _goes_on(log: Log) -> Log:
    log.publish(90, HIGH)
    log.dispatch(1, 90, HIGH)
    log.now_us += 3 * SETTLED
    log.publish(91, HIGH)
    log.dispatch(1, 91, HIGH)
    return log


def _to_the_end() -> Log:
    log = _waiting()
    log.publish(2, HIGH)
    return log


def _unloaded() -> Log:
    log = _waiting()
    log.leave(1, reason="closed_by_broker")
    log.leave(2, reason="closed_by_broker")
    log.reset("unload")
    log.join(3)
    log.flow(3, 1_000)
    return _after(log)


def _unloaded_reset_first() -> Log:
    log = _waiting()
    # Both consumers are still there.
    log.snapshot(reported(1), reported(2))
    log.reset("unload", phases="start")
    log.leave(1, reason="closed_by_broker")
    log.leave(2, reason="closed_by_broker")
    log.reset("unload", phases="end")
    log.join(3)
    log.flow(3, 1_000)
    return _after(log)


def _sought() -> Log:
    log = _waiting()
    log.reset("seek")
    log.join(3)
    log.flow(3, 1_000)
    return _after(log)


def _cleared() -> Log:
    log = _waiting()
    log.reset("clear")
    log.now_us += SECOND
    log.snapshot(mark_delete_position="1:1", read_position="1:2")
    log.now_us += 3 * SETTLED
    log.publish(92, HIGH)
    log.dispatch(1, 92, HIGH)
    return log


def _after(log: Log) -> Log:
    log.dispatch(3, 1, LOW)
    log.now_us += 3 * SETTLED
    log.publish(92, HIGH)
    return log


def _left() -> Log:
    log = _waiting()
    log.leave(1)
    log.leave(2)
    log.now_us += 3 * SETTLED
    log.join(3)
    return log


def _due() -> Log:
    log = Log()
    log.join(1)
    log.flow(1, 1_000)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH, deliver_at_ms=log.now_us // 1_000 + 2_000)
    log.now_us += 6 * SECOND
    log.dispatch(1, 1, HIGH)
    return _goes_on(log)


def _limited() -> Log:
    log = Log()
    log.join(1)
    log.flow(1, 1_000)
    for entry in range(60):
        log.publish(entry, HIGH)
    for entry in range(60):
        if entry and entry % 12 == 0:
            log.now_us += SECOND
        log.dispatch(1, entry, HIGH)
    return _goes_on(log)


def _finding(row: Columns) -> tuple[object, ...]:
    return row["rule"], row["severity"], row["seq"], row["explanation"]


def _wait(row: Columns) -> tuple[object, ...]:
    return tuple(row[name] for name in ("scope", "cause", "from_seq", "to_seq", "ended_by", "explanation"))


@pytest.mark.parametrize(
    ("story", "stalls"),
    [
        (_to_the_end, 1),
        (_unloaded, 1),
        (_unloaded_reset_first, 1),
        (_sought, 1),
        (_left, 1),
        (_cleared, 1),
        (_due, 1),
        (_limited, 0),
    ],
    ids=["end", "unload", "unload, reset first", "seek", "last leave", "clear", "due", "rate limit"],
)
def test_a_stall_is_found_once_wherever_the_trace_is_cut(story: Callable[[], Log], stalls: int) -> None:
    log = story()
    whole = tables_of(log.rows)
    found = [_finding(row) for row in whole["violations"] if row["rule"] == "stalled"]
    waits = {_wait(row) for row in whole["blocking"] if row["scope"] == "subscription"}
    assert len(found) == stalls
    assert len(waits) == (stalls or 4) + (story is _left)
    profile = profile_for("4.0.8", AUTO_SPLIT)
    config = ReplayConfig(profile, "4.0.8", profile.broker(AUTO_SPLIT), SKEW_US, 1_000_000, unsettled_us=SETTLED)
    for cut in range(4, len(log.rows) + 1, 1 if len(log.rows) < 50 else 7):
        windows = tables_of_windows([log.rows], config, [cut])
        in_windows = [_finding(row) for window in windows for row in window["violations"] if row["rule"] == "stalled"]
        ended = {
            _wait(row)
            for number, window in enumerate(windows)
            for row in window["blocking"]
            if row["scope"] == "subscription" and (row["to_seq"] is not None or number == 1)
        }
        assert in_windows == found, cut
        assert ended == waits, cut
