import threading
import time

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.threads import at_one_time, both


def fail() -> None:
    raise UsageError("the target cannot be written", "choose another --out")


def test_both_are_done_at_one_time() -> None:
    meet = threading.Barrier(2, timeout=300)
    assert sorted(both(meet.wait, meet.wait)) == [0, 1]


def test_an_error_of_the_brief_one_does_not_wait_for_the_long_one() -> None:
    reported = threading.Event()
    with pytest.raises(UsageError, match="the target cannot be written"):
        both(fail, reported.wait)
    reported.set()


def test_an_error_of_the_long_one_is_raised() -> None:
    with pytest.raises(UsageError, match="the target cannot be written"):
        both(lambda: None, fail)


def test_results_are_in_the_order_of_the_items() -> None:
    meet = threading.Barrier(2, timeout=300)

    def late_if_first(item: int) -> int:
        meet.wait()
        time.sleep(0.05 * (item == 0))
        return -item

    assert at_one_time(late_if_first, range(2)) == [0, -1]


def test_after_an_error_nothing_else_is_begun_and_what_was_begun_is_finished() -> None:
    failed = threading.Event()
    finished: list[int] = []

    def work(item: int) -> None:
        if item == 1:
            failed.set()
            fail()
        failed.wait(300)
        time.sleep(0.05)
        finished.append(item)

    # To do all of them would take more than ten seconds, in which the error is noticed on any machine.
    with pytest.raises(UsageError, match="the target cannot be written"):
        at_one_time(work, range(1_000))
    assert {0} <= set(finished)
    assert len(finished) < 999


def test_of_several_errors_that_of_the_first_item_is_raised() -> None:
    meet = threading.Barrier(3, timeout=300)

    def fail_together(item: int) -> None:
        meet.wait()
        raise UsageError(f"item {item}", "")

    with pytest.raises(UsageError, match="item 0"):
        at_one_time(fail_together, range(3))
