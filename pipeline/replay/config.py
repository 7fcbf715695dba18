"""The configuration of a replay: the broker's profile, its settings, and the limits of what is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment import DEFAULT_POINTS
from dispatch_audit.pipeline.contract.answers import UNSETTLED_US
from dispatch_audit.pipeline.contract.known_bugs import release_of
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind
from dispatch_audit.pipeline.contract.recorded_by import BROKER, RecordedBy
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.replay.settings.broker_limits import LOOK_AHEAD, BrokerLimits, Thresholds, limits_of
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting, SettingsInForce, settings_at_start
from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

CONSISTENT_HASHING: Final = "subscriptionKeySharedUseConsistentHashing"
REPLICA_POINTS: Final = "subscriptionKeySharedConsistentHashingReplicaPoints"


class OrderLimits(NamedTuple):
    """The limits of the search for the order of overlapping membership changes."""

    # How many intermediate assignments a search examines; beyond that the order counts as unknown.
    assignments_max: int = 5_000
    rows_max: int = 50_000  # for how many rows changes wait for a snapshot that shows their order


@dataclass(frozen=True)
class ReplayConfig:
    """The configuration of a replay: everything it depends on besides its events."""

    profile: Profile  # the profile of the broker's release
    version: str  # the version of the broker; among the releases of a profile the known bugs differ
    broker: Mapping[str, object]  # broker.conf names to values (`Profile.broker`)
    skew_us: int  # recorder skew, in microseconds
    open_entries_max: int  # the limit of entries that are open at one time
    thresholds: Thresholds = field(default_factory=Thresholds)  # the thresholds from which on waiting is reported
    # The limits of the search for orders of membership changes.
    orders: OrderLimits = field(default_factory=OrderLimits)
    hot_keys_max: int = 20  # how many keys and hashes of a subscription are reported by each measure
    # The time before the end of a window that only the next window reports, in microseconds, because later rows may
    # change its findings. The replay also keeps that much of what was reported last, to explain later findings. It must
    # not be shorter than the time for which rows are held back.
    unsettled_us: int = UNSETTLED_US
    complete_from_start: bool = True  # whether the first join is in the trace
    recorded_by: RecordedBy = BROKER  # where the trace was recorded
    # Whether the rows have digests in the place of keys, and the hashes of the keys beside them.
    keys_digested: bool = False
    digests_change: bool = False  # whether one key has several digests, so that two that differ do not show two keys
    # The names of those that trace.json gives; the others have the default of the release.
    given: frozenset[str] = frozenset()
    ends_us: int | None = None  # when the window ends, microseconds since 1970 UTC; None: the log ends with it
    # The kinds of rows that the recorder writes for certain, even if the trace has none of a kind.
    written: frozenset[str] = frozenset()
    sample: HashSample = EVERY_HASH  # the hashes whose rows are replayed

    def selector(self, sticky: bool) -> SelectorKind:
        """The selector of a new dispatcher (contract 2)."""
        if sticky:
            return "exclusive"
        return "auto_split" if self.broker.get(CONSISTENT_HASHING) is False else "consistent_hashing"

    def claim(self, setting: str) -> Setting:
        """What the trace claims that a setting was at its start, or the default that is taken."""
        claimed = self.settings_in_force().of(setting)
        # A setting that brokers of this release lack is off.
        return claimed._replace(value=False) if claimed.value is None else claimed

    @cached_property
    def release(self) -> Release:
        """The release of the broker."""
        return release_of(self.version, self.profile)

    @property
    def points(self) -> int:
        """Ring points of a consumer."""
        points = self.broker.get(REPLICA_POINTS)
        return points if isinstance(points, int) else DEFAULT_POINTS

    def settings_in_force(self) -> SettingsInForce:
        """The settings at the beginning of the trace; rows `settings` change them for one subscription."""
        return SettingsInForce(*self._settings_at_start)

    @cached_property
    def _settings_at_start(self) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
        return settings_at_start(self.broker, self.profile.settings, self.given)

    @cached_property
    def limits(self) -> BrokerLimits:
        """The broker's limits: those of look-ahead only as far as the dispatcher of this release heeds them."""
        heeded = LOOK_AHEAD & self.profile.settings.keys()
        broker = {name: value for name, value in self.broker.items() if name in heeded or name not in LOOK_AHEAD}
        profile = self.profile
        limits = limits_of(broker, bool(heeded), profile.reads_past_replay, profile.unwritable_takes_nothing)
        if heeded != LOOK_AHEAD and limits.replay_per_subscription <= 0:
            # Only of the draining dispatcher is it known whether other limits replace this one (4.7, 6.2).
            return limits._replace(looks_ahead=False)
        return limits
