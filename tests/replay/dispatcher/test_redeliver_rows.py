"""Redeliver rows are recorded before their effect (contract 10.3): what is sent in between may be given back too.

Every case has one that differs only in what rules this out.
"""

import pytest
from local_replay import LOW, SKEW_US, Log, replayed, reported

# Rows of a dispatch: two, a millisecond each.
IN_TIME_US = SKEW_US - 3_000
TOO_LATE_US = SKEW_US + 3_000


def _one() -> Log:
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    return log


@pytest.mark.parametrize(("pause_us", "found"), [(IN_TIME_US, False), (TOO_LATE_US, True)])
@pytest.mark.parametrize("named", [(), (0,)])
def test_what_is_sent_before_the_command_takes_effect_may_come_once_more(
    pause_us: int, found: bool, named: tuple[int, ...]
) -> None:
    log = _one()
    log.redeliver(1, *named)
    log.now_us += pause_us
    log.dispatch(1, 0, LOW, count=0)
    log.now_us += 50_000
    sent = log.dispatch(1, 0, LOW, count=1)
    assert replayed(log.rows).broken == [("early_duplicate", sent), ("redelivery_count", sent)] * found


def test_it_comes_once_more_with_one_redelivery_at_most() -> None:
    log = _one()
    log.redeliver(1)
    log.dispatch(1, 0, LOW, count=0)
    sent = log.dispatch(1, 0, LOW, count=2)
    assert replayed(log.rows).broken == [("redelivery_count", sent)]


def test_a_count_that_has_gone_up_shows_that_the_command_took_effect() -> None:
    log = _one()
    log.dispatch(1, 0, LOW, count=0)
    log.redeliver(1, 0)
    log.dispatch(1, 0, LOW, count=1)
    sent = log.dispatch(1, 0, LOW, count=1)
    assert replayed(log.rows).broken == [("early_duplicate", sent)]


@pytest.mark.parametrize("other", [False, True])
def test_only_the_consumer_of_the_command_gives_back(other: bool) -> None:
    log = _one()
    log.join(2)
    owner = 2  # of the lower half
    log.redeliver(1 if other else owner)
    log.dispatch(owner, 0, LOW)
    sent = log.dispatch(owner, 0, LOW)
    assert replayed(log.rows).broken == [("early_duplicate", sent)] * other


@pytest.mark.parametrize(("pause_us", "lost"), [(0, False), (TOO_LATE_US, True)])
def test_a_consumer_may_leave_before_its_command_takes_effect(pause_us: int, lost: bool) -> None:
    """What it held then comes back without counting."""
    log = _one()
    log.dispatch(1, 0, LOW, count=0)
    log.join(2)
    log.redeliver(1, 0)
    log.now_us += pause_us
    log.leave(1)
    sent = log.dispatch(2, 0, LOW, count=0)
    assert replayed(log.rows).broken == [("redelivery_count", sent)] * lost


@pytest.mark.parametrize(("pause_us", "agreed"), [(0, 1), (1_000_000, 0)])
def test_a_snapshot_may_still_count_what_was_given_back(pause_us: int, agreed: int) -> None:
    log = _one()
    log.dispatch(1, 0, LOW)
    log.redeliver(1, 0)
    log.now_us += pause_us
    log.snapshot(reported(1, unacked_messages=1))
    assert replayed(log.rows).agreement["unacked_messages"] == (agreed, 1)
