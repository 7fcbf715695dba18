"""The inputs of the kernel: rows, and the policy from profile and subscription."""

from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.records import Ints


@checkpointed("policy")
class Policy(NamedTuple):
    """The settings of the kernel, from the profile and the subscription.

    Attributes:
        skew_us: how much later than its event a row may be recorded if its early side is missing.
        unordered_us: two dispatches recorded closer than this may have been decided in the other order; 0 where the
            decision itself is recorded.
        mark_delete_releases: whether ordinary moves of mark-delete release pending entries (contract 3.11).
        keeps_order: False for a subscription that allows out-of-order delivery (E5).
        sticky: whether its consumers declare their hashes (STICKY).
        report_min_us: the shortest interval of waiting that is reported.
        stall_threshold_us: the shortest time without a dispatch that is a stall, or that starves a hash.
        delay_tick_us: delayedDeliveryTickTimeMillis: how long after its time a delayed entry may become due (4.13).
    """

    skew_us: int
    unordered_us: int
    mark_delete_releases: bool
    keeps_order: bool
    sticky: bool
    report_min_us: int
    stall_threshold_us: int
    delay_tick_us: int


class Stretch(NamedTuple):
    """Rows under one policy, and the routing that is in force.

    Attributes:
        events: the rows, in the order of seq.
        consumers: the index in the state of each row's consumer; -1 where it has none.
        hashes: the sticky hash of each row; -1 where it has none. The kernel fills in that of a dispatch without a key,
            and its `key_id`, if they are known by then.
        policy: the settings in force.
    """

    events: Events
    consumers: Ints
    hashes: Ints
    policy: Policy
