"""The settings of a broker that mean something to the audit or to a simulation, and the kind of value of each.

Names are those of broker.conf, and a few of format 1 for what only policies have (TRACE_FORMAT, "Settings"). A trace
may have others, which mean nothing.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from dispatch_audit.pipeline.contract.profile import profiles

SettingKind = Literal["number", "switch"]

_RATES: Final = ("dispatchThrottlingRate", "dispatchThrottlingRatePerTopic", "dispatchThrottlingRatePerSubscription")
NUMBERS: Final = frozenset(
    {
        "maxUnackedMessagesPerConsumer",
        "maxUnackedMessagesPerSubscription",
        "maxUnackedMessagesPerBroker",
        *(f"{rate}{unit}" for rate in _RATES for unit in ("InMsg", "InByte", "PeriodInSeconds")),
        "keySharedLookAheadMsgInReplayThresholdPerConsumer",
        "keySharedLookAheadMsgInReplayThresholdPerSubscription",
        "keySharedUnblockingIntervalMs",
        "delayedDeliveryTickTimeMillis",
        "dispatcherMaxReadBatchSize",
        "dispatcherMinReadBatchSize",
        "dispatcherMaxReadSizeBytes",
    }
)
"""Numbers that rows `settings` may change."""
SWITCHES: Final = frozenset(
    {
        "dispatchThrottlingOnNonBacklogConsumerEnabled",
        "dispatchThrottlingOnBatchMessageEnabled",
        "subscriptionKeySharedUseClassicPersistentImplementation",
        "delayedDeliveryEnabled",
        "dispatcherPauseOnAckStatePersistentEnabled",
    }
)
"""Switches that rows `settings` may change."""
ENTRY_BUCKETS: Final = "entryBucketDispatch"
"""What `trace.json` may declare for all subscribers, and no broker.conf has."""


@cache
def setting_kinds() -> Mapping[str, SettingKind]:
    """Returns the kind of each setting, by its name."""
    kinds: dict[str, SettingKind] = {
        name: "switch" if isinstance(value, bool) else "number"
        for profile in profiles().values()
        for name, value in profile.settings.items()
    }
    kinds |= dict.fromkeys(NUMBERS, "number")
    return kinds | dict.fromkeys((*SWITCHES, ENTRY_BUCKETS), "switch")


def is_of_kind(name: str, value: object) -> bool:
    """Whether a setting may have a value; any value is possible for other names, and null is the default."""
    kind = setting_kinds().get(name)
    if value is None or kind is None:
        return True
    # True and false are numbers in Python.
    return isinstance(value, bool) == (kind == "switch") and isinstance(value, bool | int | float)
