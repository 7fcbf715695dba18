"""The selectors that a broker may run other than the one that the trace claims: other settings, or another release.

Source: contract 2 (which settings choose the selector) and 6 (the classic dispatcher).
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment import DEFAULT_POINTS, Selector, make_selector
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile, SettingValue, profile_for, profiles
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.packed_batch import Merged
from dispatch_audit.pipeline.replay.config import CONSISTENT_HASHING, REPLICA_POINTS, ReplayConfig
from dispatch_audit.pipeline.replay.evidence.settings_evidence import ReportedAssignment
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import decisions
from dispatch_audit.udfs.sticky_key_hash import Int64Array, hash_range, sticky_from_murmur, sticky_hashes

VERSION: Final = "pulsar_version"
# Numbers of points that explain the same dispatches differ in few hashes.
_SHOWN_MAX: Final = 3
# Two namesakes, because releases differ in how they number them, and so many consumers that ring points collide.
_SAMPLE: Final = ("a", "a", *(f"consumer-{number}" for number in range(20)))
_POINTS_MAX: Final = 1_000
_REPORTS_MAX: Final = 5
# Operators set round numbers, and the last points of a consumer may not show because its ranges are fused.
_ROUND: Final = (100, 50, 10, 5, 1)
# Dispatches that are looked at, and the rows of each part among which these are found.
_ROUTED_MAX: Final = 500
_REPEATED: Final = 40
# With fewer, some number explains them by chance.
_ROUTED_MIN: Final = 10
# Points that collide, or a join at the time of a dispatch, may route a few elsewhere.
_EXPLAINED_MIN: Final = 0.95


Routed = tuple[int, int, Mapping[int, str]]
"""A dispatch: the murmur value of its key, its receiver, and the names of all consumers by their numbers."""


class SelectorClaim(NamedTuple):
    """The claims that a trace would make to be replayed with a selector."""

    profile: str  # the name of the profile
    version: str  # the version of the broker
    settings: Mapping[str, SettingValue]  # the settings of broker.conf that choose the selector, with their values

    def applied(self, config: ReplayConfig) -> ReplayConfig:
        """The configuration of a replay with this selector."""
        profile, former = profiles()[self.profile], config.profile.settings
        given = {name: of for name, of in config.broker.items() if name in config.given or of != former.get(name)}
        broker = {**profile.broker(given), **self.settings}
        return replace(config, profile=profile, version=self.version, broker=broker)

    def is_of_release(self, config: ReplayConfig) -> bool:
        """Whether a broker of the claimed release may have it."""
        return self.profile in _profiles_of_release(config)

    def contradicted(self, config: ReplayConfig) -> list[tuple[Setting, str]]:
        """The claims of a trace that this selector contradicts, each with the value that it shows."""
        shown = [(config.claim(name), json.dumps(value)) for name, value in self.settings.items()]
        found = [(claim, value) for claim, value in shown if claim.text != value]
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
    return _claim_of(config.profile, config.version, rings, config.points)


def _claim_of(profile: Profile, version: str, rings: bool, points: int) -> SelectorClaim:
    settings = {CONSISTENT_HASHING: rings, REPLICA_POINTS: points, CLASSIC_SETTING: profile.classic}
    return SelectorClaim(profile.name, version, settings)


def other_selectors(
    config: ReplayConfig, reported: Sequence[ReportedAssignment], names: Mapping[int, str], routed: Sequence[Routed]
) -> Iterator[SelectorClaim]:
    """Selectors other than that of the configuration that may give the reported assignments, the likeliest first.

    Without reports every selector may give them, and `routed` has dispatches that it has to explain. `names` are those
    of the consumers in the reports.
    """
    hashing = config.broker.get(CONSISTENT_HASHING) is not False
    claimed = make_selector(config.selector(sticky=False), config.points, config.profile)
    tried = [(config.profile.dispatcher, _sample(claimed))]
    for profile, version in _profiles(config):
        # The claimed number of points, the default, and those that the reports or the dispatches show.
        shown = _points_in(profile, reported, names) if reported else _points_by_dispatches(profile, routed)
        of_rings = [(True, points) for points in dict.fromkeys((config.points, DEFAULT_POINTS, *shown))]
        of_ranges = [(False, config.points)]
        for rings, points in of_rings + of_ranges if hashing else of_ranges + of_rings:
            selector = make_selector("consistent_hashing" if rings else "auto_split", points, profile)
            candidate = profile.dispatcher, _sample(selector)
            if candidate not in tried:
                tried.append(candidate)
                yield _claim_of(profile, version, rings, points)


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


def _points_in(profile: Profile, reported: Sequence[ReportedAssignment], names: Mapping[int, str]) -> list[int]:
    """The numbers of points of a consumer that explain where reported ranges end, the roundest first; perhaps none."""
    least = 0
    for seen in sorted(reported, key=lambda seen: -seen.consumers)[:_REPORTS_MAX]:
        listed = seen.snapshot.consumers if seen.consumers > 1 else ()
        ends = {one.consumer: {end for _, end in one.ranges or ()} for one in listed}
        top = max((end for of_one in ends.values() for end in of_one), default=0)
        named = Counter(map(names.get, ends))
        for consumer, of_one in ends.items():
            name = names.get(consumer)
            # The index of a namesake depends on joins and leaves before.
            if name is not None and named[name] == 1:
                least = max(least, _least_points(profile, name, of_one - {top}))
    return list(dict.fromkeys(-(-least // step) * step for step in _ROUND)) if least else []


def _least_points(profile: Profile, name: str, ends: Iterable[int]) -> int:
    """The lowest number of points of a consumer among which are all ends of its ranges; 0: there is none."""
    wanted = np.array(sorted(ends), dtype=np.int64)

    def has_them(points: int) -> bool:
        selector = make_selector("consistent_hashing", points, profile)
        selector.add(0, name)
        return bool(np.isin(wanted, selector.routing().uppers).all())

    least = bisect_left(range(1, _POINTS_MAX + 1), True, key=has_them)
    return least + 1 if wanted.size and least < _POINTS_MAX else 0


def routed(replay: Subscription, kept: Sequence[Merged], until: int) -> list[Routed]:
    """Dispatches up to a row, each key and receiver once, with the consumers that a replay of the rows has then."""
    sent: dict[tuple[int, int], int] = {}
    starts = any(part.events.has(Code.DISPATCH_START) for part in kept)
    for events in (part.events for part in kept):
        rows = decisions(events, starts)
        rows = rows[(events.murmur[rows] >= 0) & (events.seq[rows] <= until)]
        for at in rows[: _ROUTED_MAX * _REPEATED].tolist():
            sent.setdefault((int(events.murmur[at]), int(events.consumer[at])), int(events.seq[at]))
    stays = replay.loop.membership.stays
    return [
        (*pair, {number: stay.row.name for number, stay in stays.items() if stay.is_there(seq)})
        for pair, seq in list(sent.items())[:_ROUTED_MAX]
    ]


def _points_by_dispatches(profile: Profile, routed: Sequence[Routed]) -> list[int]:
    """The numbers of points that explain dispatches best, the roundest first; none: no number explains nearly all.

    A consumer's points are the first ones of a row that does not depend on their number. Where consumers share a name,
    or the ring is of a release that has no index of names, dispatches show nothing here.
    """
    if profile.ring_point_text != "name_nul_index_nul_i":
        return []
    rule = profile.hash["consistent_hashing"]
    size, explained, used = hash_range(rule).size, np.zeros(_POINTS_MAX, dtype=np.int64), 0
    for murmur, receiver, names in routed:
        sticky = int(sticky_from_murmur(murmur, rule))
        if receiver in names and len(set(names.values())) == len(names):
            rows = [_points_in_order(name, rule) for name in names.values()]
            ahead = [np.minimum.accumulate((row - sticky) % size) for row in rows]
            explained += np.argmin(ahead, axis=0) == list(names).index(receiver)
            used += 1
    best = int(explained.max())
    if used < _ROUTED_MIN or best < _EXPLAINED_MIN * used:
        return []
    found = (np.flatnonzero(explained == best) + 1).tolist()
    return sorted(found, key=lambda points: [points % step for step in _ROUND].index(0))[:_SHOWN_MAX]


@lru_cache(maxsize=1_024)
def _points_in_order(name: str, hash_rule: str) -> Int64Array:
    return sticky_hashes([f"{name}\0{0}\0{point}".encode() for point in range(_POINTS_MAX)], hash_rule)
