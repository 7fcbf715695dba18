"""The selectors that a broker may run other than the one that the trace claims: other settings, or another release.

Source: contract 2 (which settings choose the selector) and 6 (the classic dispatcher).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment import DEFAULT_POINTS, Selector, make_selector
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile, SettingValue, profile_for, profiles
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.replay.config import CONSISTENT_HASHING, REPLICA_POINTS, ReplayConfig
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignment
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting
from dispatch_audit.pipeline.replay.trial.ring_points import points_in

VERSION: Final = "pulsar_version"
# Two namesakes, because releases differ in how they number them, and so many consumers that ring points collide.
_SAMPLE: Final = ("a", "a", *(f"consumer-{number}" for number in range(20)))


class SelectorClaim(NamedTuple):
    """The claims that a trace would make to be replayed with a selector.

    Attributes:
        profile: the name of the profile.
        version: the version of the broker.
        settings: the settings of broker.conf that choose the selector, with their values.
    """

    profile: str
    version: str
    settings: Mapping[str, SettingValue]

    def applied(self, config: ReplayConfig) -> ReplayConfig:
        """The configuration of a replay with this selector."""
        profile, former = profiles()[self.profile], config.profile.settings
        given = {
            name: value for name, value in config.broker.items() if name in config.given or value != former.get(name)
        }
        broker = {**profile.broker(given), **self.settings}
        return replace(config, profile=profile, version=self.version, broker=broker)

    def is_of_release(self, config: ReplayConfig) -> bool:
        """Whether a broker of the claimed release may have it."""
        return self.profile in _profiles_of_release(config)

    def contradicted(self, config: ReplayConfig) -> list[tuple[Setting, str]]:
        """The claims of a trace that this selector contradicts, each with the value that it shows."""
        found = [
            (config.claim(name), json.dumps(value))
            for name, value in self.settings.items()
            if config.claim(name).text != json.dumps(value)
        ]
        if not self.is_of_release(config):
            found.append((Setting(VERSION, config.version, "trace.json"), f"the selector of {self.profile}"))
        return found

    def named(self) -> str:
        """Its name in a sentence."""
        rings = f"consistent hashing with {self.settings[REPLICA_POINTS]} points a consumer"
        return f"{rings if self.settings[CONSISTENT_HASHING] else 'AUTO_SPLIT'} ({self.profile})"


def selector_of(config: ReplayConfig) -> SelectorClaim:
    """The claim that gives the selector of a configuration."""
    rings = config.selector(sticky=False) == "consistent_hashing"
    settings = {CONSISTENT_HASHING: rings, REPLICA_POINTS: config.points, CLASSIC_SETTING: config.profile.classic}
    return SelectorClaim(config.profile.name, config.version, settings)


def other_selectors(
    config: ReplayConfig, reported: Sequence[ReportedAssignment], names: Mapping[int, str]
) -> Iterator[SelectorClaim]:
    """Selectors other than that of the configuration that may give the reported assignments, the likeliest first.

    Args:
        config: the configuration of the replay.
        reported: assignments that snapshots report; none: every selector may give them.
        names: of the consumers in them.
    """
    hashing = config.broker.get(CONSISTENT_HASHING) is not False
    claimed = make_selector(config.selector(sticky=False), config.points, config.profile)
    tried = [(config.profile.dispatcher, _sample(claimed))]
    for profile, version in _profiles(config):
        # The claimed number of points, the default, and those that the reports show.
        of_rings = list(dict.fromkeys((config.points, DEFAULT_POINTS, *points_in(profile, reported, names))))
        for rings in (hashing, not hashing):
            for points in of_rings if rings else [config.points]:
                selector = make_selector("consistent_hashing" if rings else "auto_split", points, profile)
                candidate = profile.dispatcher, _sample(selector.copy())
                if candidate in tried or not _fits_bounds(selector, reported):
                    continue
                tried.append(candidate)
                classic: SettingValue = profile.classic
                settings = {CONSISTENT_HASHING: rings, REPLICA_POINTS: points, CLASSIC_SETTING: classic}
                yield SelectorClaim(profile.name, version, settings)


def _profiles(config: ReplayConfig) -> Iterator[tuple[Profile, str]]:
    """Profiles and the version to judge by: the claimed one, its other dispatcher, and those of other releases."""
    every = profiles()
    claimed = _profiles_of_release(config)
    yield from ((every[name], config.version) for name in claimed)
    here = list(every).index(config.profile.name)
    # The nearest release first; the classic dispatcher, which only a setting turns on, is less likely.
    for _, profile in sorted(enumerate(every.values()), key=lambda both: (both[1].classic, abs(both[0] - here))):
        if profile.name not in claimed:
            # The oldest release of a line has the most flaws, so the audit rules none of them out.
            yield profile, profile.from_version


def _profiles_of_release(config: ReplayConfig) -> list[str]:
    """The names of the profile of a trace and of the one for the other dispatcher of its release, if it has two."""
    found = [config.profile.name]
    # A version that is no number belongs to a profile that the user named.
    with suppress(UsageError):
        found.append(profile_for(config.version, {CLASSIC_SETTING: not config.profile.classic}).name)
    return list(dict.fromkeys(found))


def _sample(selector: Selector) -> tuple[int, object]:
    """What distinguishes selectors: the hashes that they reduce, and how they share them among some consumers."""
    for number, name in enumerate(_SAMPLE):
        selector.add(number, name)
    selector.remove(1)
    routing = selector.routing()
    return routing.modulus, selector.ranges()


def _fits_bounds(selector: Selector, reported: Sequence[ReportedAssignment]) -> bool:
    """Whether a selector begins and ends the ranges of all consumers where the reports do."""
    one = selector.copy()
    one.add(0, _SAMPLE[0])
    ranges = one.ranges()
    bounds = int(ranges.starts[0]), int(ranges.ends[-1])
    return all(bounds == _bounds(seen) for seen in reported)


def _bounds(seen: ReportedAssignment) -> tuple[int, int]:
    ranges = [both for consumer in seen.snapshot.consumers for both in consumer.ranges or ()]
    return min(start for start, _ in ranges), max(end for _, end in ranges)
