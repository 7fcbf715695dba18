"""The effective limit of look-ahead, case by case (contract 4.7)."""

from collections.abc import Mapping

import pytest

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits, limits_of

PER_CONSUMER = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
PER_SUBSCRIPTION = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
CLASSIC = {"subscriptionKeySharedUseClassicPersistentImplementation": True}


def limits(**broker: object) -> BrokerLimits:
    names = {
        "each": PER_CONSUMER,
        "all": PER_SUBSCRIPTION,
        "unacked_each": "maxUnackedMessagesPerConsumer",
        "unacked_all": "maxUnackedMessagesPerSubscription",
    }
    return limits_of({names[name]: value for name, value in broker.items()}, looks_ahead=True)


def limits_on(version: str, settings: Mapping[str, object]) -> BrokerLimits:
    profile = profile_for(version, settings)
    return ReplayConfig(profile, version, profile.broker(settings), 0, 1).limits


@pytest.mark.parametrize(
    ("each", "of_all", "consumers", "expected"),
    [
        (2_000, 20_000, 3, 6_000),
        (2_000, 20_000, 10, 20_000),
        (2_000, 20_000, 11, 20_000),
        (50, 200, 10, 200),
        (0, 20_000, 3, 20_000),
        (-1, 20_000, 3, 20_000),
        (2_000, 0, 30, 60_000),
        (2_000, -1, 30, 60_000),
    ],
)
def test_the_smaller_threshold_counts_and_none_at_or_below_zero(
    each: int, of_all: int, consumers: int, expected: int
) -> None:
    assert limits(each=each, all=of_all).look_ahead(consumers) == expected


@pytest.mark.parametrize(
    ("unacked_each", "unacked_all", "expected"),
    [(50, 1_000, 150), (50, 100, 100), (50, 0, 150), (0, 100, 100), (0, 0, None)],
)
def test_without_thresholds_the_unacked_limits_stand_in(
    unacked_each: int, unacked_all: int, expected: int | None
) -> None:
    reported = limits(unacked_each=unacked_each, unacked_all=unacked_all)
    assert reported.look_ahead(3) == expected


def test_the_unacked_limits_do_not_lower_a_threshold() -> None:
    assert limits(each=2_000, all=20_000, unacked_each=1, unacked_all=1).look_ahead(3) == 6_000


def test_with_nobody_connected_the_unacked_limit_of_the_subscription_stands_in() -> None:
    # 2000 times no consumer is no limit, so the rule falls through as the broker's does.
    assert limits(each=2_000, all=20_000, unacked_each=50, unacked_all=100).look_ahead(0) == 100


@pytest.mark.parametrize(("version", "settings"), [("3.0.7", {}), ("3.3.2", {}), ("4.0.8", CLASSIC)])
def test_dispatchers_of_recently_joined_consumers_have_none(version: str, settings: dict[str, object]) -> None:
    # Also not through the unacked limits, which these brokers do have.
    reported = limits_on(version, settings)
    assert reported.unacked_per_consumer == 50_000
    assert reported.look_ahead(3) is None


def test_the_classic_dispatcher_heeds_no_threshold_that_the_broker_has() -> None:
    # A recorder writes down all of broker.conf, whichever dispatcher is in use (6.2).
    settings = {**CLASSIC, PER_CONSUMER: 50, PER_SUBSCRIPTION: 200}
    assert limits_on("4.0.8", settings).look_ahead(3) is None
    assert limits_on("4.0.13", settings).look_ahead(3) is None
    assert limits_on("4.1.3", settings).look_ahead(3) is None
    assert limits_on("4.2.4", settings).look_ahead(3) is None


@pytest.mark.parametrize("version", ["4.0.14", "4.2.5"])
def test_the_last_classic_dispatchers_heed_the_threshold_of_the_subscription_alone(version: str) -> None:
    assert limits_on(version, {**CLASSIC, PER_CONSUMER: 50, PER_SUBSCRIPTION: 200}).look_ahead(30) == 200
    assert limits_on(version, CLASSIC).look_ahead(3) == 20_000
    assert limits_on(version, {**CLASSIC, PER_SUBSCRIPTION: 0}).look_ahead(3) is None


@pytest.mark.parametrize(("version", "expected"), [("4.0.1", 6_000), ("4.0.8", 6_000), ("4.2.4", 6_000)])
def test_the_defaults_of_the_draining_dispatcher(version: str, expected: int) -> None:
    assert limits_on(version, {}).look_ahead(3) == expected


@pytest.mark.parametrize("value", [True, None, "50", 50.0])
def test_what_is_not_a_number_is_no_limit(value: object) -> None:
    assert limits(unacked_each=value).unacked_per_consumer == 0
