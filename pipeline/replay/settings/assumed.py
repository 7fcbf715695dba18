"""The values of settings that a finding assumes, because no row says them (docs/REPLAY.md)."""

from collections.abc import Iterable
from typing import NamedTuple

from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.replay.settings.settings_in_force import DISPATCH_RATES, SettingsInForce, members


class Assumption(NamedTuple):
    """A value that a finding assumes."""

    setting: str  # its name in broker.conf; `dispatchThrottlingRate`: none of its limits, of whatever level, is set
    value: str  # as trace.json would have it
    source: str  # `claimed`: trace.json gives it; otherwise whose default it is, such as `default of 4.2.4`

    @property
    def text(self) -> str:
        """It as a clause, such as `maxUnackedMessagesPerConsumer is 50,000 (default of 4.2.4)`."""
        value = f"{int(self.value):,}" if self.value.isdecimal() else self.value
        return f"{self.setting} is {value} ({self.source})"


def assumptions(names: Iterable[str], at_start: SettingsInForce, release: Release) -> tuple[Assumption, ...]:
    """The values that are taken for settings, by their names or those of several together, which no row says."""
    return tuple(found for name in names for found in _of(name, at_start, release))


def _of(name: str, at_start: SettingsInForce, release: Release) -> list[Assumption]:
    settings = [at_start.of(one) for one in members(name)]
    default = f"default of {release}"
    if name == DISPATCH_RATES:
        limits = [setting for setting in settings if setting.limit]
        if not limits:
            claimed = all(setting.where == "trace.json" for setting in settings)
            return [Assumption(name, "0", "claimed" if claimed else default)]
        settings = limits
    return [Assumption(s.name, s.text, "claimed" if s.where == "trace.json" else default) for s in settings]


def clause(assumed: Iterable[Assumption]) -> str:
    """The assumptions as a clause at the end of a sentence, such as `if a is 1 (claimed)`; empty: there are none."""
    said = [of.text for of in assumed]
    return f"if {' and '.join(said)}" if said else ""
