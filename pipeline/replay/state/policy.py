"""The inputs of the kernel: rows, and the policy from profile and subscription."""

from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.records import Ints


@checkpointed("policy")
class Policy(NamedTuple):
    """The settings of the kernel, from the profile and the subscription."""

    skew_us: int  # how much later than its event a row may be recorded if its early side is missing
    # Two dispatches recorded closer than this may have been decided in the other order; 0 where the decision itself is
    # recorded.
    unordered_us: int
    mark_delete_releases: bool  # whether ordinary moves of mark-delete release pending entries (contract 3.11)
    keeps_order: bool  # False for a subscription that allows out-of-order delivery (E5)
    sticky: bool  # whether its consumers declare their hashes (STICKY)
    report_min_us: int  # the shortest interval of waiting that is reported
    stall_threshold_us: int  # the shortest time without a dispatch that is a stall, or that starves a hash
    delay_tick_us: int  # delayedDeliveryTickTimeMillis: how long after its time a delayed entry may become due (4.13)


class Stretch(NamedTuple):
    """Rows under one policy, and the routing that is in force."""

    events: Events  # the rows, in the order of seq
    consumers: Ints  # the index in the state of each row's consumer; -1 where it has none
    # The sticky hash of each row; -1 where it has none. The kernel fills in that of a dispatch without a key, and its
    # `key_id`, if they are known by then.
    hashes: Ints
    policy: Policy  # the settings in force
