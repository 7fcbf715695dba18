"""Dispatch rate limits of the simulated broker (contract 4.2 step 5d, 4.10 step 5)."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from simulated import MS, S, client, joins, rows_of, workload_of
from test_flaws import HIGH, setup

from dispatch_audit.pipeline.simulate.state.broker_settings import RateLimit
from dispatch_audit.pipeline.simulate.state.dispatch_rates import DispatchRates
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload

RATE = "dispatchThrottlingRate"


def limited(*rates: RateLimit) -> DispatchRates:
    found = DispatchRates()
    found.change(rates, 0)
    return found


def test_a_read_has_what_the_least_limit_leaves() -> None:
    rates = limited(RateLimit(20, 0, S), RateLimit(0, 1000, S))

    assert rates.allowed(100, 10, 0) == 20
    assert rates.allowed(100, 200, 0) == 5
    # While a byte is left, a read has an entry.
    assert rates.allowed(100, 5000, 0) == 1


def test_a_debt_is_paid_before_anything_more_is_read() -> None:
    rates = limited(RateLimit(10, 0, S))
    rates.charge(25, 0)

    assert rates.allowed(100, 0, 1_500_000 - MS) == 0
    assert rates.allowed(100, 0, 1_700_000) == 2
    assert rates.allowed(100, 0, 60 * S) == 10


def test_a_limit_that_stays_as_it_was_keeps_its_tokens() -> None:
    rates = limited(RateLimit(10, 0, S), RateLimit(5, 0, S))
    rates.charge(5, 0)
    rates.change([RateLimit(10, 0, S)], 0)
    assert rates.allowed(100, 0, 0) == 5

    rates.change([RateLimit(20, 0, S)], 0)
    assert rates.allowed(100, 0, 0) == 20


def test_two_levels_with_the_same_rate_have_tokens_of_their_own() -> None:
    rates = limited(RateLimit(10, 0, S), RateLimit(5, 0, S))
    rates.change([RateLimit(10, 0, S), RateLimit(10, 0, S)], 0)
    rates.charge(6, 0)
    assert rates.allowed(100, 0, 0) == 4


def burst(actions: list[Action], sizes: int = 100) -> PartitionWorkload:
    published = [(10 * MS, HIGH)] * 100
    workload = workload_of(published, [client("a")], [*joins(1), *actions], end_us=6 * S)
    return replace(workload, sizes=[sizes] * 100)


def sent_by_second(workload: PartitionWorkload, broker: Mapping[str, object]) -> list[int]:
    rows = rows_of(workload, setup("4.2.4", broker=broker))
    at = [row["ts_us"] // S for row in rows if row["event"] == "dispatch" and row["phase"] == "start"]
    return [at.count(second) for second in range(6)]


@pytest.mark.parametrize("level", ["", "PerTopic", "PerSubscription"])
def test_a_limit_in_messages_is_kept_at_each_level(level: str) -> None:
    # A bucket is full at first; a read that finds it empty comes again a second later.
    assert sent_by_second(burst([]), {f"{RATE}{level}InMsg": 20}) == [20, 20, 20, 20, 20, 0]
    assert sent_by_second(burst([]), {f"{RATE}{level}InMsg": -1}) == [100, 0, 0, 0, 0, 0]


def test_a_limit_in_bytes_is_kept() -> None:
    # A last byte is enough for an entry more, which the next second pays.
    assert sent_by_second(burst([]), {f"{RATE}PerTopicInByte": 2500}) == [26, 25, 25, 24, 0, 0]


def test_a_limit_may_hold_for_longer_than_a_second() -> None:
    broker = {f"{RATE}InMsg": 20, f"{RATE}PeriodInSeconds": 2}

    assert sum(sent_by_second(burst([]), broker)) <= 20 + 6 * 10


def test_the_broker_that_loads_a_topic_owes_nothing() -> None:
    """One read overdraws the limit by what half a minute earns."""
    broker = {f"{RATE}PerSubscriptionInMsg": 10}

    assert sent_by_second(replace(burst([]), messages=[30] * 100), broker) == [10, 0, 0, 0, 0, 0]
    unloaded = replace(burst([Action(500 * MS, "unload")]), messages=[30] * 100)
    assert sent_by_second(unloaded, broker) == [20, 0, 0, 0, 0, 0]


def test_a_limit_comes_and_goes_while_the_broker_runs() -> None:
    on = Action(0, "settings", settings={f"{RATE}PerTopicInMsg": 10})
    off = Action(2500 * MS, "settings", settings={f"{RATE}PerTopicInMsg": None})

    assert sent_by_second(burst([on, off]), {}) == [10, 10, 10, 70, 0, 0]
