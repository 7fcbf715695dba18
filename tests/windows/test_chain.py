"""Which windows belong together, and from which one the next starts; only what `runs` says is looked at."""

from typing import Any

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.windows.chain import (
    PastWindow,
    Plan,
    StartsFrom,
    continued,
    path_to,
    planned,
    windows_since,
)
from dispatch_audit.pipeline.windows.window import Window


def past(from_us: int | None, to_us: int | None, started: int = 0, **changed: Any) -> PastWindow:
    start: StartsFrom = "beginning" if from_us is None else "state"
    name = f"{from_us} to {to_us} at {started}"
    one = PastWindow(name, Window(from_us, to_us), start, from_us, to_us, rows=5, started_at_us=started)
    return one._replace(**changed)


FIRST, SECOND, THIRD = past(None, 10, 1), past(10, 20, 2), past(20, 30, 3)
CLOSED = past(30, None, 4)
ALL = [THIRD, CLOSED, FIRST, SECOND]


def plan(window: Window, of: list[PastWindow]) -> Plan:
    return planned("chain", of, window)


@pytest.mark.parametrize(
    ("of", "asked", "window"),
    [
        ([], Window(None, 10), Window(None, 10)),
        ([FIRST], Window(None, 20), Window(10, 20)),
        (ALL, Window(None, 25), Window(20, 25)),
        (ALL, Window(None, 20), Window(10, 20)),
        (ALL, Window(None, 5), Window(None, 5)),
        (ALL, Window(None, 99), Window(30, 99)),
        (ALL, Window(7, 9), Window(7, 9)),
        (ALL, Window(7, None), Window(7, None)),
    ],
    ids=str,
)
def test_a_window_without_a_beginning_goes_on_from_the_newest_state_before_its_end(
    of: list[PastWindow], asked: Window, window: Window
) -> None:
    assert continued(of, asked) == window


def test_what_a_window_starts_from() -> None:
    assert plan(Window(None, 10), ALL).starts_from == "beginning"
    assert plan(Window(20, 40), ALL).starts_from == "state"
    assert plan(Window(20, 40), ALL).before == (FIRST, SECOND)
    assert plan(Window(15, 40), ALL).starts_from == "censored"
    assert plan(Window(15, 40), ALL).before == ()


def test_of_windows_that_were_audited_again_the_last_time_counts() -> None:
    again = past(10, 20, 9, run_key="again")
    assert path_to([*ALL, again], 30) == (FIRST, again, THIRD)


def test_a_chain_that_began_in_the_middle_of_a_log_is_censored_throughout() -> None:
    middle = past(10, 20, starts_from="censored")
    assert not plan(Window(10, 20), []).complete_from_start
    assert not plan(Window(30, 40), [middle, THIRD]).complete_from_start
    assert plan(Window(30, 40), [middle, THIRD]).before == (middle, THIRD)
    assert plan(Window(30, 40), ALL).complete_from_start


def test_the_other_windows_have_no_moment_in_common_with_it() -> None:
    assert plan(Window(10, 20), ALL).others == (FIRST.run_key, THIRD.run_key, CLOSED.run_key)
    assert plan(Window(10, 25), ALL).others == (FIRST.run_key, CLOSED.run_key)
    assert plan(Window(None, 30), ALL).others == (CLOSED.run_key,)
    assert plan(Window(40, 50), ALL).others == (FIRST.run_key, SECOND.run_key, THIRD.run_key)


@pytest.mark.parametrize(
    ("moment", "windows"),
    [(0, ALL), (9, ALL), (10, [SECOND, THIRD, CLOSED]), (29, [THIRD, CLOSED]), (30, [CLOSED]), (10**9, [CLOSED])],
)
def test_the_windows_from_the_one_on_that_holds_a_moment(moment: int, windows: list[PastWindow]) -> None:
    assert windows_since(ALL, moment) == sorted((one.window for one in windows), key=lambda w: w.from_us or 0)


def test_a_log_that_went_on_after_it_was_closed_is_no_longer_closed() -> None:
    assert windows_since([*ALL, past(30, 40, 5)], 20) == [THIRD.window, Window(30, 40)]


@pytest.mark.parametrize(
    ("of", "moment"), [([], 0), ([FIRST, SECOND], 20), ([past(10, 20, starts_from="censored")], 9)]
)
def test_a_moment_that_no_window_holds(of: list[PastWindow], moment: int) -> None:
    with pytest.raises(UsageError, match="no audited window holds 1970-01-01T00:00:00"):
        windows_since(of, moment)
