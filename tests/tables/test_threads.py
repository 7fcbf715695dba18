import threading

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.threads import both


def fail() -> None:
    raise UsageError("the target cannot be written", "choose another --out")


def test_both_are_done_at_one_time() -> None:
    meet = threading.Barrier(2, timeout=10)
    assert sorted(both(meet.wait, meet.wait)) == [0, 1]


def test_an_error_of_the_brief_one_does_not_wait_for_the_long_one() -> None:
    told = threading.Event()
    with pytest.raises(UsageError, match="the target cannot be written"):
        both(fail, told.wait)
    told.set()


def test_an_error_of_the_long_one_is_raised() -> None:
    with pytest.raises(UsageError, match="the target cannot be written"):
        both(lambda: None, fail)
