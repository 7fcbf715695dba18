"""What the core is held to: the mapping in force, and what profile and subscription ask for."""

from typing import NamedTuple

import numpy as np

from pipeline.assignment import Routing
from pipeline.replay.state.compiled import compiled
from pipeline.replay.state.state import Ints


class RoutingArrays(NamedTuple):
    """A `Routing` whose owners are indexes of consumers in the state, -1: nobody."""

    uppers: Ints
    owners: Ints
    modulus: int


@compiled
def owner_of(mapping: RoutingArrays, sticky_hash: int) -> int:
    """`Routing.owners_of` for one hash, which may be that of an earlier row: not every dispatch says its key."""
    slot = sticky_hash % mapping.modulus if mapping.modulus > 0 else sticky_hash
    return int(mapping.owners[np.searchsorted(mapping.uppers, slot)])


def owners_of(mapping: RoutingArrays, hashes: Ints) -> Ints:
    """The place of the consumer that each hash belongs to, or NOBODY."""
    return Routing(*mapping).owners_of(hashes)


def routing_arrays(routing: Routing) -> RoutingArrays:
    """The form of a routing that the compiled functions take; its owners are places in the state already."""
    return RoutingArrays(routing.uppers, routing.owners, routing.modulus)


class Policy(NamedTuple):
    """What the profile and the subscription ask of the core.

    Attributes:
        skew_us: how far a row may lie behind what it records where its early side is missing.
        unordered_us: see `rules.check_dispatch`.
        mark_delete_releases: whether ordinary moves of mark-delete release pending entries (contract 3.11).
        keeps_order: False for a subscription that allows out-of-order delivery (E5).
        sticky: whether its consumers name the hashes that they want (STICKY).
        unacked_max: maxUnackedMessagesPerConsumer; 0: no limit.
        report_min_us: how long a consumer must be hindered to be reported.
        stall_threshold_us: how long nothing may happen, where something could, before it counts as a stall.
    """

    skew_us: int
    unordered_us: int
    mark_delete_releases: bool
    keeps_order: bool
    sticky: bool
    unacked_max: int
    report_min_us: int
    stall_threshold_us: int
