"""The settings that a simulation is said to use are those that change it."""

import pytest

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.contract.setting_kinds import setting_kinds
from dispatch_audit.pipeline.messages.nearest import misspelt
from dispatch_audit.pipeline.simulate.state.broker_settings import LIMITS, SIMULATED, broker_settings

# With rates, so that their periods matter.
_RATES = {f"dispatchThrottlingRate{level}InMsg": 5 for level in ("", "PerTopic", "PerSubscription")}
BROKER = profile_for("4.0.8", {}).broker(_RATES)


@pytest.mark.parametrize("name", sorted({*setting_kinds(), *SIMULATED}))
def test_a_setting_changes_the_simulation_if_it_is_listed(name: str) -> None:
    others = (False, True) if setting_kinds().get(name) == "switch" else (7, 11)
    found = {broker_settings({**BROKER, name: value}) for value in others}
    assert (len(found) == 2) == (name in SIMULATED)


def test_limits_are_numbers() -> None:
    assert {setting_kinds()[name] for name in LIMITS} == {"number"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxUnackedMessagePerConsumer", "maxUnackedMessagesPerConsumer"),
        ("keySharedLookaheadMsgInReplayThresholdPerConsumer", "keySharedLookAheadMsgInReplayThresholdPerConsumer"),
        ("delayedDeliveryEnable", "delayedDeliveryEnabled"),
        ("maxUnackedMessagesPerConsumer", None),
        # Settings of Pulsar that mean nothing to the audit.
        ("maxUnackedMessagesPerSubscriptionOnBrokerBlocked", None),
        ("dispatchThrottlingRatePerReplicatorInMsg", None),
        ("subscriptionSharedUseClassicPersistentImplementation", None),
        ("dispatcherMaxRoundRobinBatchSize", None),
        ("numIOThreads", None),
    ],
)
def test_only_a_slip_is_taken_for_another_setting(name: str, meant: str | None) -> None:
    assert misspelt(name, setting_kinds()) == meant
