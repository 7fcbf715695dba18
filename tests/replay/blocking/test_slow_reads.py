"""A read that snapshots show under way until sending goes on may be slow; one that is lost stays under way (#26454)."""

import json
from collections.abc import Callable

import pytest
from local_replay import HIGH, LOW, Log, one_waiting, tables_of

SECOND_US = 1_000_000


def stands(read_position: str, *, normal: bool = False, replay: bool = False, in_replay: int = 0) -> Log:
    """Consumers 1 (HIGH) and 2 (LOW) have permits; 1:1 of LOW waits for two seconds, and 1:2 of HIGH comes then."""
    log = one_waiting()
    for _ in range(4):
        log.now_us += SECOND_US // 2
        say(log, read_position, normal=normal, replay=replay, in_replay=in_replay)
    log.publish(2, HIGH)
    return log


def say(log: Log, read_position: str, *, normal: bool = False, replay: bool = False, in_replay: int = 0) -> None:
    """A snapshot of what the dispatcher waits for."""
    flags = {"subscription_have_pending_read": normal, "subscription_have_pending_replay_read": replay}
    log.snapshot(msg_in_replay=in_replay, read_position=read_position, **flags)


def found(log: Log) -> list[str]:
    """The severity of each stall, with its bug and what may explain it."""
    rows = [row for row in tables_of(log.rows, version="4.2.4")["violations"] if row["rule"] == "stalled"]
    why = [row["known_bug"] or json.loads(str(row["detail"]))["doubt"] for row in rows]
    return [f"{row['severity']} {of_row}".strip() for row, of_row in zip(rows, why, strict=True)]


@pytest.mark.parametrize("end", [lambda _: None, lambda log: log.reset("unload"), lambda log: log.reset("seek")])
def test_a_read_is_lost_if_nothing_but_a_new_dispatcher_ends_it(end: Callable[[Log], object]) -> None:
    log = stands("1:1", normal=True)
    end(log)
    assert found(log) == ["known_bug #26454"]


def test_a_read_is_lost_if_only_a_restart_of_all_consumers_ends_it() -> None:
    log = stands("1:1", normal=True)
    log.leave(1)
    log.leave(2)
    log.join(3)
    log.flow(3, 1_000)
    log.dispatch(3, 1, LOW)
    assert found(log) == ["known_bug #26454"]


def test_whoever_leaves_meanwhile_does_not_make_a_slow_read_a_lost_one() -> None:
    log = stands("1:1", normal=True)
    log.leave(1)
    log.dispatch(2, 1, LOW)
    assert found(log) == ["violation"]
