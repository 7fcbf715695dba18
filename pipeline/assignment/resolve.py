"""Derives the assignments that follow from membership changes whose order is partly known.

The changes are put in an order that all observations allow. If other orders are possible too, the result names the
hashes that they give to other consumers: while the changes happened, and afterwards.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.join_orders import Burst, Orders, Precedence, possible_orders, with_open_joins
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import ALL_HASHES, HashRanges, differing, owned_by, union
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.selectors.selector import Selector, with_change


class Resolved(NamedTuple):
    """Membership changes in an order.

    Attributes:
        order: the numbers of the changes.
        selectors: the selector before the first change and after each, in this order.
        undecided: at the same moments, the hashes that possible orders give to different consumers.
        open: the numbers of the changes whose order is open.
        possible: the assignments that are possible after the last change, that of `order` first.
        complete: whether there can be no others. If not, the owner of every hash is unknown.
    """

    order: list[int]
    selectors: list[Selector]
    undecided: list[HashRanges]
    open: list[int]
    possible: list[Selector]
    complete: bool


def resolve(roots: Sequence[Selector], burst: Burst, nodes_max: int) -> Resolved:
    """Puts membership changes in order.

    Args:
        roots: the assignments that are possible before the changes.
        burst: the changes.
        nodes_max: how many intermediate assignments are examined.
    """
    changes, reported = burst.changes, burst.observed.reported
    orders = possible_orders(roots, burst, nodes_max)
    learned = _learned(orders, burst)
    if learned.any():
        # Contested points show which consumer joined first; search an order that agrees with them.
        known = closed(orders.precedes | learned)
        if not (known & known.T).any():
            orders = possible_orders(roots, burst._replace(precedes=known), nodes_max)
    possible = [_settled(selector, orders, burst) for selector in orders.states[-1]]
    selectors = [selector for selector, *_ in orders.states]
    if orders.complete:
        undecided, open_changes = _undecided(roots[0], orders, burst)
        undecided[-1] = doubtful(possible)
        return Resolved(orders.order, selectors, undecided, open_changes, possible, True)
    # There are more orders than can be examined, so it is unknown which hashes they agree on.
    adopted = reported is not None and possible[0].adopt(reported)
    undecided = [(), *[ALL_HASHES] * len(changes)]
    if adopted:
        undecided[-1] = doubtful(possible)
    return Resolved(orders.order, selectors, undecided, orders.order, possible, adopted)


def doubtful(possible: Sequence[Selector]) -> HashRanges:
    """The hashes that possible assignments give to different consumers."""
    differs = differing([selector.routing() for selector in possible]) if len(possible) > 1 else ()
    return union([*differs, *(both for selector in possible for both in selector.disputed())])


def _learned(orders: Orders, burst: Burst) -> Precedence:
    """The order of joins that the owners of contested points show."""
    selector = with_open_joins(orders.states[-1][0], burst.changes, orders.precedes)
    number_of = {change.consumer: number for number, change in enumerate(burst.changes) if change.kind == "join"}
    found = np.zeros_like(orders.precedes)
    for earlier, later in selector.learn(burst.observed.owner_of_range):
        if earlier in number_of and later in number_of:
            found[number_of[earlier], number_of[later]] = True
    return found


def _settled(selector: Selector, orders: Orders, burst: Burst) -> Selector:
    twin = with_open_joins(selector, burst.changes, orders.precedes)
    twin.learn(burst.observed.owner_of_range)
    return twin


def closed(precedes: Precedence) -> Precedence:
    """The transitive closure of a relation."""
    whole: Precedence = precedes.copy()
    for middle in range(len(whole)):
        whole |= np.outer(whole[:, middle], whole[middle])
    return whole


def _undecided(root: Selector, orders: Orders, burst: Burst) -> tuple[list[HashRanges], list[int]]:
    """The hashes in doubt by the number of changes that have happened, and the changes whose order is open."""
    open_pairs = ~(orders.precedes | orders.precedes.T)
    touched = _Touched(root, orders, burst.changes)
    undecided: list[HashRanges] = []
    open_changes: set[int] = set()
    for at, states in enumerate(orders.states):
        done, to_come = orders.order[:at], orders.order[at:]
        crossing = {n for one in done for other in to_come if open_pairs[one, other] for n in (one, other)}
        ranges = [*differing([selector.routing() for selector in states])] if len(states) > 1 else []
        ranges += touched.by(crossing)
        disputing = (with_open_joins(selector, burst.changes, orders.precedes) for selector in states)
        ranges += [both for selector in disputing for both in selector.disputed()]
        undecided.append(union(ranges))
        open_changes |= crossing
    return _whole_bursts(undecided, orders), sorted(open_changes)


def _whole_bursts(undecided: Sequence[HashRanges], orders: Orders) -> list[HashRanges]:
    """The doubts, extended so that all moments of a burst have the doubts of each of its moments.

    While the order is open, the moment of each change is open too: an assignment between two of the changes may have
    been in force between two others.
    """
    whole = list(undecided)
    first = 0
    while first < len(whole):
        last = first
        while last < len(whole) and undecided[last]:
            last += 1
        burst = orders.states[max(first - 1, 0) : last + 1]
        if last > first:
            differs = differing([selector.routing() for states in burst for selector in states])
            both = union([*differs, *(part for ranges in undecided[first:last] for part in ranges)])
            # Doubts before and after all changes do not depend on the moments of the changes.
            for at in range(max(first, 1), min(last, len(whole) - 1)):
                whole[at] = both
        first = last + 1
    return whole


class _Touched:
    """The hashes that a change may move, in any order of the changes."""

    def __init__(self, root: Selector, orders: Orders, changes: Sequence[Change]) -> None:
        self._root = root
        self._orders = orders
        self._changes = changes
        self._joined: dict[int, HashRanges] = {}

    def by(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        """The ranges that any of some changes may move."""
        kinds = {self._changes[number].kind for number in numbers}
        if "reset" in kinds:
            return [*ALL_HASHES]
        moved = [both for n in numbers if self._changes[n].kind == "join" for both in self._joining(n)]
        return [*moved, *self._leaving] if "leave" in kinds else moved

    def _joining(self, number: int) -> HashRanges:
        if number not in self._joined:
            self._joined[number] = self._owned_at_most(number)
        return self._joined[number]

    def _owned_at_most(self, number: int) -> HashRanges:
        """The most hashes that a newcomer can get: after all leaves and before all other joins."""
        change = self._changes[number]
        if any(other.name == change.name for other in self._changes if other is not change):
            # Its ring points depend on how many consumers with its name are connected.
            bases = [self._before(number, leaving) for leaving in (True, False)]
        else:
            bases = [self._emptiest]
        states = (with_change(base.copy(), change) for base in bases)
        return union(both for state in states for both in owned_by(state.routing(), change.consumer))

    def _before(self, number: int, leaving: bool) -> Selector:
        """The selector before a change: all changes that certainly precede it, with or without all possible leaves."""
        precedes = self._orders.precedes
        state = self._root.copy()
        for other in self._orders.order:
            if precedes[other, number]:
                state = with_change(state, self._changes[other])
        for other, change in enumerate(self._changes):
            if leaving and change.kind == "leave" and not precedes[number, other]:
                state.remove(change.consumer)
        return state

    @cached_property
    def _emptiest(self) -> Selector:
        resets = any(other.kind == "reset" for other in self._changes)
        base = self._root.emptied() if resets else self._root.copy()
        for other in self._changes:
            if other.kind == "leave":
                base.remove(other.consumer)
        return base

    @cached_property
    def _leaving(self) -> HashRanges:
        """The hashes of all leaving consumers; one may get hashes of another before it leaves itself."""
        routing = self._root.routing()
        leavers = {change.consumer for change in self._changes if change.kind == "leave"}
        owned = [both for consumer in leavers for both in owned_by(routing, consumer)]
        joins = [n for n, change in enumerate(self._changes) if change.kind == "join" and change.consumer in leavers]
        return union([*owned, *(both for number in joins for both in self._joining(number))])
