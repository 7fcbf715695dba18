"""The settings in force at a point of the trace."""

import json

from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
    settings_at_start,
)

DEFAULTS = {UNACKED_PER_CONSUMER: 50_000, UNACKED_PER_SUBSCRIPTION: 200_000}


def in_force(**given: object) -> SettingsInForce:
    return SettingsInForce(*settings_at_start({**DEFAULTS, **given}, DEFAULTS, frozenset(given)))


def row(seq: int, source: str = "topic", anew: bool = False, **values: object) -> SettingsRow:
    sources = dict.fromkeys(values, source)
    return SettingsRow(seq, seq * 1000, seq, seq, False, False, anew, json.dumps(values), json.dumps(sources))


def test_a_setting_has_the_value_of_trace_json_or_the_default_until_a_row_names_it() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    assert (settings.of(UNACKED_PER_CONSUMER).value, settings.of(UNACKED_PER_CONSUMER).where) == (40, "trace.json")
    assert settings.of(UNACKED_PER_SUBSCRIPTION).where == "default"
    settings.put(row(7, maxUnackedMessagesPerConsumer=3000))
    assert settings.of(UNACKED_PER_CONSUMER)[1:] == (3000, "settings row", "topic", 7)
    assert settings.of(UNACKED_PER_SUBSCRIPTION).value == 200_000


def test_null_is_the_default_of_the_release_and_not_the_value_of_trace_json() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    settings.put(row(7, maxUnackedMessagesPerConsumer=None))
    assert settings.of(UNACKED_PER_CONSUMER).value == 50_000


def test_within_a_bracket_either_value_may_be_in_force() -> None:
    settings, later = in_force(maxUnackedMessagesPerConsumer=40), row(9, maxUnackedMessagesPerConsumer=10)
    settings.announce(later)
    assert (settings.highest(UNACKED_PER_CONSUMER), settings.lowest(UNACKED_PER_CONSUMER)) == (40, 10)
    settings.put(later)
    assert (settings.highest(UNACKED_PER_CONSUMER), settings.lowest(UNACKED_PER_CONSUMER)) == (10, 10)


def test_no_limit_is_higher_than_any_and_lower_than_none() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    settings.announce(row(9, maxUnackedMessagesPerConsumer=0))
    assert (settings.highest(UNACKED_PER_CONSUMER), settings.lowest(UNACKED_PER_CONSUMER)) == (0, 40)


def test_where_rows_are_lost_a_setting_is_unknown_until_a_row_names_it() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    settings.lose()
    assert not settings.is_known(UNACKED_PER_CONSUMER)
    settings.put(row(9, maxUnackedMessagesPerConsumer=10))
    assert settings.is_known(UNACKED_PER_CONSUMER)
    assert not settings.is_known(UNACKED_PER_SUBSCRIPTION)


def test_the_next_owner_begins_with_trace_json() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    settings.put(row(3, maxUnackedMessagesPerConsumer=5))
    settings.put(row(9, anew=True))
    assert settings.of(UNACKED_PER_CONSUMER).value == 40


def test_a_policy_does_not_change_what_the_broker_takes_from_broker_conf() -> None:
    settings = in_force(maxUnackedMessagesPerConsumer=40)
    settings.put(row(3, maxUnackedMessagesPerConsumer=5))
    assert settings.of_broker(UNACKED_PER_CONSUMER) == 40
    settings.put(row(4, source="dynamic", maxUnackedMessagesPerConsumer=6))
    assert settings.of_broker(UNACKED_PER_CONSUMER) == 6


def test_rates_have_scope_amounts_period_and_who_says_so() -> None:
    settings = in_force(dispatchThrottlingRateInMsg=-1, dispatchThrottlingRatePerTopicInMsg=100)
    settings.put(
        row(
            8,
            source="namespace",
            dispatchThrottlingRatePerSubscriptionInByte=4096,
            dispatchThrottlingRatePerSubscriptionPeriodInSeconds=10,
        )
    )
    topic, subscription = settings.rates()
    assert topic[:4] == ("topic", 100, 0, 1)
    assert subscription[:4] == ("subscription", 0, 4096, 10)
    assert [(claim.source, claim.seq) for claim in subscription.claims] == [("namespace", 8), ("namespace", 8)]


def test_a_rate_of_a_row_may_be_taken_back() -> None:
    settings = in_force()
    settings.put(row(8, dispatchThrottlingRatePerTopicInMsg=100))
    settings.put(row(9, dispatchThrottlingRatePerTopicInMsg=-1))
    assert settings.rates() == ()


def test_in_the_bracket_of_a_change_both_rates_may_be_in_force() -> None:
    settings = in_force(dispatchThrottlingRatePerTopicInMsg=5)
    settings.announce(row(8, dispatchThrottlingRatePerTopicInMsg=30))
    assert [rate.messages for rate in settings.rates()] == [5, 30]
    assert [[claim.value for claim in rate.claims] for rate in settings.rates()] == [[5], [30]]
    settings.put(row(8, dispatchThrottlingRatePerTopicInMsg=30))
    assert [rate.messages for rate in settings.rates()] == [30]
