"""The settings of a simulated broker while it runs: policies that change them, and what the recorder sees of that."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dispatch_audit.pipeline.simulate.output.event_log import EventLog
from dispatch_audit.pipeline.simulate.output.settings_rows import SettingsRecorder, Values
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.state.broker_settings import RATES, BrokerSettings, broker_settings
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState
from dispatch_audit.pipeline.simulate.state.faults import Faults

# Prefixes of the settings that a recorder watches (TRACE_FORMAT) and the simulation uses.
_WATCHED: Final = (
    "maxUnackedMessagesPer",
    "dispatchThrottling",
    "keySharedLookAheadMsgInReplayThresholdPer",
    "keySharedUnblockingIntervalMs",
    "delayedDelivery",
    "dispatcherMaxReadBatchSize",
)


class ChangingSettings:
    """The settings in force."""

    def __init__(self, setup: Setup, state: DispatcherState, log: EventLog) -> None:
        self._setup = setup
        self._state = state
        self._policies: dict[str, int | bool] = {}
        self._recorder = SettingsRecorder(log)
        state.change_settings(self._in_force())
        if setup.recorded_settings == "late":
            state.agenda.at(0, self._look)
        elif setup.recorded_settings == "exactly":
            self._recorder.changed(0, self._effective())

    def change(self, values: Values) -> None:
        """Applies what policies of the topic change: new values by name; None returns to that of broker.conf."""
        for name, value in values.items():
            if value is None:
                self._policies.pop(name, None)
            else:
                self._policies[name] = value
        self._state.change_settings(self._in_force())
        if self._setup.recorded_settings == "exactly":
            effective = self._effective()
            self._recorder.changed(self._state.agenda.now_us, {name: effective.get(name) for name in values})

    def _look(self, _: object) -> None:
        self._recorder.look(self._state.agenda.now_us, self._effective())
        self._state.agenda.after(self._setup.settings_us, self._look)

    def _in_force(self) -> BrokerSettings:
        return faulty(broker_settings(self._setup.broker, self._policies), self._setup.faults)

    def _effective(self) -> dict[str, int | bool | None]:
        """The settings as a recorder sees them; a dispatch rate without a limit is 0."""
        in_force: Mapping[str, object] = {**dict.fromkeys(RATES, 0), **self._setup.broker, **self._policies}
        return {
            name: value
            for name, value in in_force.items()
            if name.startswith(_WATCHED) and isinstance(value, int | bool)
        }


def faulty(settings: BrokerSettings, faults: Faults) -> BrokerSettings:
    """The settings with the unacknowledged limits that a faulty broker enforces; no limit stays no limit."""
    per_consumer, per_subscription = settings.unacked_per_consumer, settings.unacked_per_subscription
    return replace(
        settings,
        unacked_per_consumer=per_consumer and per_consumer + faults.over_consumer_limit,
        unacked_per_subscription=per_subscription and per_subscription + faults.over_subscription_limit,
    )
