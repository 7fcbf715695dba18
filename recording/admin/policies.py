"""Asks for the policies that a subscription has in force, under the names that rows `settings` use.

Source: Pulsar's admin REST API, v2 (`PersistentTopics`), with `applied=true`: the value of the topic, else of its
namespace, else of broker.conf; TRACE_FORMAT, "Settings".
"""

from collections.abc import Mapping
from typing import Any, Final

from dispatch_audit.recording.admin.admin_api import AdminApi, AdminError

_OF_TOPIC: Final = {
    "maxUnackedMessagesOnConsumer": "maxUnackedMessagesPerConsumer",
    "maxUnackedMessagesOnSubscription": "maxUnackedMessagesPerSubscription",
    "dispatcherPauseOnAckStatePersistent": "dispatcherPauseOnAckStatePersistentEnabled",
}
_DELAYED: Final = {"active": "delayedDeliveryEnabled", "tickTime": "delayedDeliveryTickTimeMillis"}
_RATE: Final = {
    "dispatchThrottlingRateInMsg": "InMsg",
    "dispatchThrottlingRateInByte": "InByte",
    "ratePeriodInSecond": "PeriodInSeconds",
}


def policies_in_force(api: AdminApi, topic: str, subscription: str) -> dict[str, int | bool]:
    """Returns settings by name; without those that the broker does not have, or does not tell this caller."""
    found: dict[str, int | bool] = {}
    for policy, setting in _OF_TOPIC.items():
        found |= _scalars({setting: _asked(api, topic, policy)})
    found |= _renamed(_asked(api, topic, "delayedDelivery"), _DELAYED)
    found |= _rate(_asked(api, topic, "dispatchRate"), "dispatchThrottlingRatePerTopic")
    return found | _rate(_asked(api, topic, subscription, "dispatchRate"), "dispatchThrottlingRatePerSubscription")


def _asked(api: AdminApi, topic: str, *policy: str) -> Any:
    """Returns a policy as JSON; None: it is not to be had."""
    try:
        return api.policy(topic, *policy)
    except AdminError:
        # Absent in this release, or not for this caller. Where nobody answers at all, the poll says so.
        return None


def _rate(found: Any, prefix: str) -> dict[str, int | bool]:
    return _renamed(found, {name: prefix + ending for name, ending in _RATE.items()})


def _renamed(found: Any, names: Mapping[str, str]) -> dict[str, int | bool]:
    return _scalars({setting: found.get(name) for name, setting in names.items()}) if isinstance(found, dict) else {}


def _scalars(found: Mapping[str, Any]) -> dict[str, int | bool]:
    return {name: value for name, value in found.items() if isinstance(value, int)}
