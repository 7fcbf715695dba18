"""The broker's settings by time: what `trace.json` says, and the rows `settings` that change it (TRACE_FORMAT).

Many settings are dynamic in Pulsar, or come from policies of the namespace or the topic, so what holds for a
subscription changes while the trace goes on. A row says what is in force from it on; where it also names the row up to
which the former values were certainly in force, either may have been in force in between.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow

Value: TypeAlias = bool | int | float | str | None
Where: TypeAlias = Literal["trace.json", "settings row", "default", "lost"]
Scope: TypeAlias = Literal["broker", "topic", "subscription"]

UNACKED_PER_CONSUMER: Final = "maxUnackedMessagesPerConsumer"
UNACKED_PER_SUBSCRIPTION: Final = "maxUnackedMessagesPerSubscription"
UNACKED_PER_BROKER: Final = "maxUnackedMessagesPerBroker"
READ_BATCH: Final = "dispatcherMaxReadBatchSize"
DELAYED_DELIVERY: Final = "delayedDeliveryEnabled"

_RATES: Final[Mapping[Scope, str]] = {
    "broker": "dispatchThrottlingRate",
    "topic": "dispatchThrottlingRatePerTopic",
    "subscription": "dispatchThrottlingRatePerSubscription",
}
_RATE_LIMITS: Final = tuple(f"{name}{unit}" for name in _RATES.values() for unit in ("InMsg", "InByte"))
_IN_REPLAY: Final = "keySharedLookAheadMsgInReplayThreshold"

LOOK_AHEAD: Final = f"{_IN_REPLAY}*"
"""The two limits of look-ahead, which bring about one."""
DISPATCH_RATES: Final = "dispatchThrottlingRate"
"""The limits of the dispatch rate, of all levels."""
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    LOOK_AHEAD: (f"{_IN_REPLAY}PerConsumer", f"{_IN_REPLAY}PerSubscription"),
    DISPATCH_RATES: _RATE_LIMITS,
}
# Policies of the namespace and the topic have no part in what the broker looks up in broker.conf itself.
_OF_POLICIES: Final = frozenset({"namespace", "topic", "subscription"})


@checkpointed("setting")
class Setting(NamedTuple):
    """A value of one setting, and who says so."""

    name: str  # as in broker.conf
    value: Value  # None: nobody says one, or rows that say one may be missing
    where: Where  # `lost`: rows that would say it may be missing
    # Where the broker has the value from, in the words of the row: `topic`, `namespace`; empty: nobody says.
    source: str = ""
    seq: int | None = None  # the row that says so; None: no row does

    @property
    def said_by_row(self) -> bool:
        """Whether a row of settings says the value."""
        return self.where == "settings row"

    @property
    def text(self) -> str:
        """The value in a sentence: as trace.json writes it, a text without its quotes."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value)

    @property
    def limit(self) -> int:
        """The value as a limit; 0: there is none."""
        value = self.value
        return max(int(value), 0) if isinstance(value, int | float) and not isinstance(value, bool) else 0


@checkpointed("dispatch_rate")
class DispatchRate(NamedTuple):
    """A limit of the dispatch rate (contract 4.2, step 5d)."""

    scope: Scope  # what it limits
    messages: int  # so many in each period; 0: no limit
    size_bytes: int  # so many in each period; 0: no limit
    period_s: int  # the period in seconds
    claims: tuple[Setting, ...]  # who says so: the settings that give it


def settings_at_start(
    broker: Mapping[str, object], defaults: Mapping[str, object], given: frozenset[str]
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """The settings at the beginning of a trace, by name: those of broker.conf, and the defaults of the release.

    `given` are the names that `trace.json` has.
    """
    of_broker = {
        name: Setting(name, _value(value), "trace.json" if name in given or value != defaults.get(name) else "default")
        for name, value in broker.items()
    }
    return of_broker, {name: Setting(name, _value(value), "default") for name, value in defaults.items()}


ENTRY_FILTERS: Final = "entryFilterNames"
"""The setting that names the entry filters of a topic (TRACE_FORMAT, "Entry filters")."""


@checkpointed("settings_in_force")
@dataclass(eq=False, slots=True)
class SettingsInForce:
    """The settings that are in force for one subscription at the point up to which its rows were replayed."""

    _start: Mapping[str, Setting]
    _defaults: Mapping[str, Setting]
    # The entry filters that a row has named last; what a filter put off may come long after the filter is gone.
    filters: str = ""
    _said: dict[str, Setting] = field(default_factory=dict)
    # What an open bracket changes; the names of several rows may overlap.
    _announced: dict[SettingsRow, dict[str, Setting]] = field(default_factory=dict)
    _lost: bool = False
    _rates: tuple[DispatchRate, ...] | None = None

    def announce(self, row: SettingsRow) -> None:
        """Notes that the values of a row may be in force from here on."""
        self._announced[row] = self._values_of(row)
        self._rates = None

    def put(self, row: SettingsRow) -> None:
        """Puts the values of a row in force."""
        self._announced.pop(row, None)
        if row.anew:
            self._said.clear()
            self._lost = False
        self._said.update(self._values_of(row))
        self.filters = json.loads(row.values).get(ENTRY_FILTERS) or self.filters
        self._rates = None

    def lose(self) -> None:
        """Notes that rows `settings` may be missing: a setting is unknown until a row names it."""
        self._lost = True
        self._said.clear()
        self._announced.clear()
        self._rates = None

    def of(self, name: str) -> Setting:
        """The value of the last row that names a setting, or of the start."""
        said = self._said.get(name)
        if said is not None:
            return said
        if self._lost:
            return Setting(name, None, "lost")
        return self._start.get(name) or self._defaults.get(name) or Setting(name, None, "default")

    def possible(self, name: str) -> tuple[Setting, ...]:
        """All values that a setting may have at this point, the one that is in force for longest first."""
        if not self._announced:
            return (self.of(name),)
        announced = (values[name] for values in self._announced.values() if name in values)
        return tuple(dict.fromkeys((self.of(name), *announced)))

    def is_known(self, name: str) -> bool:
        """Whether no row that names a setting, or one of several, may be missing."""
        return all(self.of(one).where != "lost" for one in members(name))

    def is_said(self, name: str) -> bool:
        """Whether rows say a setting, or each of several."""
        return all(self.of(one).said_by_row for one in members(name))

    def highest(self, name: str) -> int:
        """The limit that no broker exceeds, whichever of the possible values is in force; 0: there is none."""
        limits = [setting.limit for setting in self.possible(name)]
        return 0 if 0 in limits else max(limits)

    def lowest(self, name: str) -> int:
        """The limit from which on the broker may hold back; 0: there is none."""
        return min((setting.limit for setting in self.possible(name) if setting.limit > 0), default=0)

    def of_broker(self, name: str) -> int:
        """The limit in broker.conf, which the broker also takes where a policy says another one (contract 4.7)."""
        setting = self.of(name)
        start = self._start.get(name) or self._defaults.get(name)
        of_policy = setting.source.lower() in _OF_POLICIES
        return start.limit if of_policy and start is not None else setting.limit

    def is_on(self, name: str) -> bool:
        """Whether a switch may be on."""
        return any(setting.value is True for setting in self.possible(name))

    def is_off(self, name: str) -> bool:
        """Whether a switch is off for certain, if who says so is right."""
        return all(setting.value is False for setting in self.possible(name))

    def rates(self) -> tuple[DispatchRate, ...]:
        """The limits of the dispatch rate that may be in force: all possible ones in messages, the lowest in bytes."""
        if self._rates is None:
            self._rates = tuple(self._possible_rates())
        return self._rates

    def _possible_rates(self) -> Iterator[DispatchRate]:
        for scope, name in _RATES.items():
            others = f"{name}InByte", f"{name}PeriodInSeconds"
            size_bytes, period_s = map(self.lowest, others)
            said = [setting for of in others for setting in self.possible(of) if setting.limit]
            of_messages = [setting for setting in self.possible(f"{name}InMsg") if setting.limit]
            for messages in dict.fromkeys(setting.limit for setting in of_messages) or (0,):
                if messages or size_bytes:
                    claims = *(setting for setting in of_messages if setting.limit == messages), *said
                    yield DispatchRate(scope, messages, size_bytes, period_s or 1, claims)

    def claimed_rates(self) -> tuple[int, ...]:
        """The limits of the dispatch rate that are in force as far as settings say; 0: none."""
        return tuple(self.of(name).limit for name in _RATE_LIMITS)

    def rules_out_rates(self) -> bool:
        """Whether rows say of each limit of the dispatch rate that there is none."""
        return self.is_said(DISPATCH_RATES) and not self.rates()

    def _values_of(self, row: SettingsRow) -> dict[str, Setting]:
        sources: dict[str, str | None] = json.loads(row.sources)
        found = {}
        for name, value in json.loads(row.values).items():
            default = self._defaults[name].value if name in self._defaults else None
            said = default if value is None else value
            found[name] = Setting(name, said, "settings row", sources.get(name) or "", row.said_seq)
        return found


def members(name: str) -> tuple[str, ...]:
    """The names in broker.conf that a name of several settings stands for, or the name itself."""
    return _MEMBERS.get(name, (name,))


def _value(value: object) -> Value:
    return value if isinstance(value, bool | int | float | str) else None
