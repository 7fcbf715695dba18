"""What a partition is simulated with: version, policy, settings, times, seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dispatch_audit.pipeline.assignment.selectors.factory import DEFAULT_POINTS, make_selector
from dispatch_audit.pipeline.assignment.selectors.selector import Selector
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind, profile_for
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.output.settings_rows import RecordedSettings
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.state.broker_settings import BrokerSettings, Timing, broker_settings
from dispatch_audit.pipeline.simulate.state.faults import NO_FAULTS, Faults
from dispatch_audit.pipeline.simulate.state.switches import Switches, switches_of

# The policies of the dispatcher before PIP-379; the others are of the draining one.
_RECENTLY_JOINED = frozenset({"recently_joined", "last_sent"})
CONSISTENT_HASHING: Final = "subscriptionKeySharedUseConsistentHashing"
REPLICA_POINTS: Final = "subscriptionKeySharedConsistentHashingReplicaPoints"


@dataclass(frozen=True)
class Setup:
    """The dispatcher to simulate.

    Attributes:
        version: of the broker.
        profile: the profile of its line.
        policy: the policy; by default that of the profile.
        broker: broker.conf names to values, complete for the line.
        switches: of the dispatcher.
        options: settings that no release has, such as those of PIP-474, by name.
        timing: the times that the model assumes.
        seed: decides what is random.
        faults: of the broker, for tests of the audit.
        recorded_settings: whether the trace says when settings change: `not`; at the row where they do (`exactly`); or
            when the recorder next looks (`late`), every `settings_us`.
        settings_us: time between two looks of the recorder.
        stats_us: time between two snapshots; 0: none.
        stall_us: from how long on nothing sent to anybody counts as a stall.
    """

    version: str
    profile: Profile
    policy: PolicyName
    broker: Mapping[str, object]
    switches: Switches
    options: Mapping[str, object] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    seed: int = 0
    faults: Faults = NO_FAULTS
    recorded_settings: RecordedSettings = "not"
    settings_us: int = 0
    stats_us: int = 0
    stall_us: int = 1_000_000

    def with_seed_of(self, partition: int) -> "Setup":
        """The same for one of several partitions, with a seed of its own."""
        return replace(self, seed=self.seed * 1_000_003 + partition)

    def with_settings(self, broker: Mapping[str, object]) -> "Setup":
        """The same with other settings of broker.conf."""
        return replace(self, broker={**self.broker, **broker})

    @property
    def settings(self) -> BrokerSettings:
        """The settings of the broker."""
        return broker_settings(self.broker)

    def selector_kind(self, sticky: bool) -> SelectorKind:
        """The selector that the broker makes (contract 2)."""
        if sticky:
            return "exclusive"
        return "auto_split" if self.broker.get(CONSISTENT_HASHING) is False else "consistent_hashing"

    def selector(self, sticky: bool) -> Selector:
        """An empty selector."""
        points = self.broker.get(REPLICA_POINTS)
        kind = self.selector_kind(sticky)
        return make_selector(kind, points if isinstance(points, int) else DEFAULT_POINTS, self.profile)


def setup_for(
    version: str,
    broker: Mapping[str, object] | None = None,
    policy: PolicyName | None = None,
    seed: int = 0,
    switches: Switches | None = None,
    **more: object,
) -> Setup:
    """The setup of a version.

    Args:
        version: of the broker; its profile gives settings, selector and switches.
        broker: broker.conf names to values that differ from the defaults of the line.
        policy: another policy than that of the line.
        seed: decides what is random.
        switches: other switches than those of the line.
        more: further attributes of `Setup`.

    Raises:
        UsageError: no profile covers the version, or the policy is none for its dispatcher.
    """
    recorded = broker or {}
    profile = profile_for(version, recorded)
    if policy is not None and (policy in _RECENTLY_JOINED) != (profile.dispatcher == "recently_joined"):
        needed = "3.3.2" if policy in _RECENTLY_JOINED else "4.0.8"
        raise UsageError(
            f"policy {policy} is none for the dispatcher of {version}", f"name another version, such as {needed}"
        )
    return Setup(
        version=version,
        profile=profile,
        policy=policy or profile.dispatcher,
        broker=profile.broker(recorded),
        switches=switches or switches_of(profile),
        seed=seed,
        **more,  # type: ignore[arg-type]  # passed on as given
    )
