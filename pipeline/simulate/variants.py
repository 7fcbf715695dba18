"""The dispatchers that a what-if compares: versions, settings and policies by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dispatch_audit.pipeline.simulate.setup import PolicyName, Setup, setup_for
from dispatch_audit.pipeline.simulate.workload.description import WorkloadDescription

_LIMITS = (
    "keySharedLookAheadMsgInReplayThresholdPerConsumer",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription",
)


@dataclass(frozen=True)
class Variant:
    """One dispatcher of a comparison.

    Attributes:
        name: for the table.
        policy: its policy; None: that of the version.
        version: of the broker; None: that of the workload.
        settings: beside those of the workload.
    """

    name: str
    policy: PolicyName | None = None
    version: str | None = None
    settings: dict[str, bool | int | float] = field(default_factory=dict)

    def setup(self, description: WorkloadDescription, seed: int, stats_us: int = 0) -> Setup:
        """Its setup on a workload."""
        settings = {**description.broker.settings, **self.settings}
        return setup_for(
            self.version or description.broker.version,
            settings,
            self.policy,
            seed,
            options=self.settings,
            stats_us=stats_us,
        )


DEFAULT_VARIANTS: Sequence[Variant] = (
    Variant("as described"),
    Variant("limits twice as high", settings={_LIMITS[0]: 4000, _LIMITS[1]: 40_000}),
    Variant("no look-ahead limit", settings=dict.fromkeys(_LIMITS, 0)),
    Variant("hot-key overflow (PIP-474)", "hot_key_overflow"),
    Variant("limit counts per hash", "count_per_hash"),
    Variant("AutoSplit", settings={"subscriptionKeySharedUseConsistentHashing": False}),
    Variant("recently joined (3.3)", version="3.3.2"),
    Variant("last sent position (PIP-282)", "last_sent", "3.3.2"),
)
"""What is compared unless a caller names others."""
