"""The dispatchers that a what-if compares: versions, settings and policies by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, profile_for
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.setup import CONSISTENT_HASHING, Setup, setup_for

_LIMITS = (
    "keySharedLookAheadMsgInReplayThresholdPerConsumer",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription",
)
_VERSIONS: Final[Mapping[Dispatcher, str]] = {"draining": "4.0.8", "recently_joined": "3.3.2"}


@dataclass(frozen=True)
class Variant:
    """One dispatcher of a comparison.

    Attributes:
        name: for the table.
        policy: its policy; None: that of the version.
        dispatcher: the kind of dispatcher that is simulated, under 4.0.8 or 3.3.2 if the traffic's release has another;
            None: that of the traffic.
        of: the kind of dispatcher whose traffic it is compared with; None: any. What a release does not have is no
            alternative to what it did.
        settings: beside those of the traffic.
        limits: the look-ahead limits are so many times those of the traffic.
    """

    name: str
    policy: PolicyName | None = None
    dispatcher: Dispatcher | None = None
    of: Dispatcher | None = None
    settings: Mapping[str, bool | int | float] = field(default_factory=dict)
    limits: int = 1

    def setup(self, version: str, broker: Mapping[str, object], seed: int, stats_us: int = 0) -> Setup:
        """Its setup for a traffic.

        Args:
            version: of the traffic's broker.
            broker: the traffic's settings of broker.conf.
            seed: decides what is random.
            stats_us: time between two snapshots; 0: none.

        Raises:
            UsageError: no profile covers the version.
        """
        if self.dispatcher not in (None, profile_for(version, broker).dispatcher):
            version = _VERSIONS[self.dispatcher]
            # This setting would select the other dispatcher again.
            broker = {name: value for name, value in broker.items() if name != CLASSIC_SETTING}
        found = profile_for(version, broker).broker(broker)
        limits = {name: value * self.limits for name in _LIMITS if isinstance(value := found.get(name), int)}
        settings = {**broker, **limits, **self.settings}
        return setup_for(version, settings, self.policy, seed, options=self.settings, stats_us=stats_us)


VARIANTS: Final[Sequence[Variant]] = (
    Variant("as given"),
    Variant("limits twice as high", of="draining", limits=2),
    Variant("no look-ahead limit", of="draining", settings=dict.fromkeys(_LIMITS, 0)),
    Variant("hot-key overflow (PIP-474)", "hot_key_overflow", of="draining"),
    Variant("limit counts per hash", "count_per_hash", of="draining"),
    Variant("AutoSplit", settings={CONSISTENT_HASHING: False}),
    Variant("draining hashes (PIP-379)", dispatcher="draining", of="recently_joined"),
    Variant("recently joined (3.3)", dispatcher="recently_joined", of="draining"),
    Variant("last sent position (PIP-282)", "last_sent", "recently_joined"),
)
"""All dispatchers that a what-if knows."""


def variants_for(version: str, broker: Mapping[str, object]) -> tuple[Variant, ...]:
    """What is compared for a traffic unless a caller names others; the first is the dispatcher of the traffic.

    Args:
        version: of the traffic's broker.
        broker: the traffic's settings of broker.conf.

    Raises:
        UsageError: no profile covers the version.
    """
    kind = profile_for(version, broker).dispatcher
    return tuple(variant for variant in VARIANTS if variant.of in (None, kind))
