"""The inputs of the kernel: rows, the routing in force, and the policy from profile and subscription."""

from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.state import NOBODY, Ints


class RoutingArrays(NamedTuple):
    """A `Routing` for compiled functions; its owners are indexes of consumers in the state, -1: nobody."""

    uppers: Ints
    owners: Ints
    modulus: int
    sharers: Ints


@compiled
def owner_of(mapping: RoutingArrays, sticky_hash: int) -> int:
    """The index of the consumer that one hash belongs to, or NOBODY; `Routing.owners_of` for compiled functions."""
    slot = sticky_hash % mapping.modulus if mapping.modulus > 0 else sticky_hash
    owner = int(mapping.owners[np.searchsorted(mapping.uppers, slot)])
    if owner >= NOBODY:
        return owner
    # Several share the interval (`Routing.sharers`).
    sharers = NOBODY - 1 - owner
    return int(mapping.sharers[sharers + 1 + slot % mapping.sharers[sharers]])


def owners_of(mapping: RoutingArrays, hashes: Ints) -> Ints:
    """The index of the consumer that each hash belongs to, or NOBODY."""
    return Routing(*mapping).owners_of(hashes)


def routing_arrays(routing: Routing) -> RoutingArrays:
    """A routing, whose owners are indexes in the state, in the form that compiled functions take."""
    return RoutingArrays(routing.uppers, routing.owners, routing.modulus, routing.sharers)


@checkpointed("policy")
class Policy(NamedTuple):
    """The settings of the kernel, from the profile and the subscription.

    Attributes:
        skew_us: how much later than its event a row may be recorded if its early side is missing.
        unordered_us: see `dispatch_rules.check_dispatch`.
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
    """Rows under one routing and one policy.

    Attributes:
        events: the rows, in the order of seq.
        consumers: the index in the state of each row's consumer; -1 where it has none.
        hashes: the sticky hash of each row; -1 where it has none. The kernel fills in that of a dispatch without a key,
            and its `key_id`, if they are known by then.
        routing: the routing in force.
        policy: the settings in force.
    """

    events: Events
    consumers: Ints
    hashes: Ints
    routing: RoutingArrays
    policy: Policy
