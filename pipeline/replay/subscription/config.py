"""What a replay depends on besides its events: the broker's line, its settings, and how much is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dispatch_audit.pipeline.assignment import DEFAULT_POINTS
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind
from dispatch_audit.pipeline.replay.blocking.broker_limits import BrokerLimits, limits_of
from dispatch_audit.pipeline.replay.blocking.thresholds import Thresholds
from dispatch_audit.pipeline.replay.subscription.watermark import UNSETTLED_US

_CONSISTENT_HASHING = "subscriptionKeySharedUseConsistentHashing"
_REPLICA_POINTS = "subscriptionKeySharedConsistentHashingReplicaPoints"


class OrderLimits(NamedTuple):
    """How far the orders are looked into in which overlapping membership changes can have happened.

    Attributes:
        assignments_max: how many intermediate assignments a search looks at; beyond that the order counts as unknown.
        rows_max: for how many rows changes wait for a snapshot that shows their order.
    """

    assignments_max: int = 5_000
    rows_max: int = 50_000


@dataclass(frozen=True)
class ReplayConfig:
    """What a replay depends on besides its events.

    Attributes:
        profile: the broker's line.
        version: of the broker; within its line the known flaws differ.
        broker: broker.conf names to values (`Profile.broker`).
        skew_us: recorder skew, in microseconds.
        open_entries_max: limit on what may be open at one time.
        thresholds: how long something must last to be of interest.
        complete_from_start: whether the first join is in the trace.
        unsettled_us: how long the end of a window waits for what may still speak of it, in microseconds; the last so
            much that was told explains what is told next. Not shorter than rows are held back for.
        orders: how far orders of overlapping membership changes are looked into.
        hot_keys_max: how many keys and hashes are told by each measure, a subscription.
    """

    profile: Profile
    version: str
    broker: Mapping[str, object]
    skew_us: int
    open_entries_max: int
    thresholds: Thresholds = field(default_factory=Thresholds)
    orders: OrderLimits = field(default_factory=OrderLimits)
    hot_keys_max: int = 20
    unsettled_us: int = UNSETTLED_US
    complete_from_start: bool = True

    def selector(self, sticky: bool) -> SelectorKind:
        """The selector of a new dispatcher (contract 2)."""
        if sticky:
            return "exclusive"
        return "auto_split" if self.broker.get(_CONSISTENT_HASHING) is False else "consistent_hashing"

    @property
    def points(self) -> int:
        """Ring points of a consumer."""
        points = self.broker.get(_REPLICA_POINTS)
        return points if isinstance(points, int) else DEFAULT_POINTS

    @property
    def limits(self) -> BrokerLimits:
        """The broker's limits."""
        return limits_of(self.broker, looks_ahead=self.profile.dispatcher == "draining")
