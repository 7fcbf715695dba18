"""Searches the possible orders of joins and leaves that overlap in time, and the assignments that follow from them.

Only some orders matter. On a ring, changes of consumers with different names lead to the same structure in any order,
and `contests` records the owners of contested points. The order of consumers with one name, and of all joins of
AutoSplit, changes the assignment. The search goes through the sets of changes that can have happened, in steps of one
change, and merges paths that lead to the same assignment. Later reports of the broker exclude paths at their first
step: AutoSplit never moves the upper end of an interval, and a ring index has its own points. So thirty joins at one
time have a single path if a report follows them.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import MISTAKES, NO_DISPATCHES, Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.selectors.selector import Selector, with_change

Precedence = npt.NDArray[np.bool_]
"""(n, n): whether change i certainly happened before change j."""


class Burst(NamedTuple):
    """Membership changes that overlap in time, and what is known of their order.

    Attributes:
        changes: n changes in a possible order.
        precedes: (n, n) which of them certainly happened before which, transitively.
        observed: the observations of the assignment after the changes, which may show their order.
    """

    changes: Sequence[Change]
    precedes: Precedence
    observed: Observed


def with_open_joins(selector: Selector, changes: Sequence[Change], precedes: Precedence) -> Selector:
    """A copy of a selector that knows the pairs of consumers whose order of joining is open."""
    joins = [number for number, change in enumerate(changes) if change.kind == "join"]
    twin = selector.copy()
    twin.leave_open(
        (changes[first].consumer, changes[second].consumer)
        for first, second in combinations(joins, 2)
        if not precedes[first, second] and not precedes[second, first]
    )
    return twin


class Orders(NamedTuple):
    """The result of a search.

    Attributes:
        order: the numbers of the changes in a possible order, the earliest possible ones first.
        states: the selectors that are possible before the first change and after each one; the first of each belong
            to `order`.
        precedes: which changes happened before which in every possible order.
        complete: whether all possible orders were examined. If not, `states` has those of `order` only.
    """

    order: list[int]
    states: list[list[Selector]]
    precedes: Precedence
    complete: bool


class _Node:
    """A set of changes that can have happened (bits), and an assignment that can follow from them."""

    def __init__(self, applied: int, selector: Selector) -> None:
        self.applied = applied
        self.selector = selector
        self.following: list[tuple[int, _Node]] = []
        self.leads_on = False


def possible_orders(roots: Sequence[Selector], burst: Burst, nodes_max: int) -> Orders:
    """All orders that lead from one of the roots to the broker's report, or that explain most dispatches.

    Args:
        roots: the assignments that are possible before the changes.
        burst: the changes.
        nodes_max: how many intermediate assignments are examined before the search gives up.
    """
    paths = _Paths(burst)
    layers = paths.layers(roots, nodes_max)
    if layers is None:
        return paths.only(roots[0])
    goals, (reported, sent) = layers[-1], burst.observed
    if reported is not None:
        goals = paths.explaining(goals, reported)
    elif len(goals) > 1:
        counts = [sent.unexplained(node.selector.routing()) for node in goals]
        goals = [node for node, count in zip(goals, counts, strict=True) if count <= min(counts) + MISTAKES]
    if goals:
        return paths.orders_to(layers, goals)
    if reported is None and sent is NO_DISPATCHES:
        return paths.only(roots[0])
    # The observations contradict every order, so they cannot decide it.
    less = Observed(None, NO_DISPATCHES if reported is None else sent)
    return possible_orders(roots, burst._replace(observed=less), nodes_max)


class _Paths:
    """The paths from the roots through sets of changes that can have happened."""

    def __init__(self, burst: Burst) -> None:
        self._changes, precedes, self._observed = burst
        self._precedes = precedes
        numbers = range(len(self._changes))
        self._before = [sum(1 << other for other in numbers if precedes[other, number]) for number in numbers]
        self._ordered = [
            self._before[number] | sum(1 << other for other in numbers if precedes[number, other]) for number in numbers
        ]
        self._leaves = sum(1 << number for number in numbers if self._changes[number].kind == "leave")
        self._related: list[int] = []

    def layers(self, roots: Sequence[Selector], nodes_max: int) -> list[list[_Node]] | None:
        """The possible nodes by the number of changes that have happened; None: more than the limit."""
        layers = [[_Node(0, root) for root in roots]]
        self._related = self._components(roots[0])
        nodes = 0
        for _ in self._changes:
            found: dict[object, _Node] = {}
            for node in layers[-1]:
                for number in self._choices(node.applied):
                    applied = node.applied | 1 << number
                    change = self._changes[number]
                    selector = with_change(node.selector.copy(), change)
                    if self._ruled_out(change, selector, applied):
                        continue
                    # A reset leaves only those who joined after it, so the changes alone do not say who is there.
                    reached = applied, selector.consumers, selector.state()
                    child = found.setdefault(reached, _Node(applied, selector))
                    node.following.append((number, child))
                    nodes += 1
                    if nodes > nodes_max:
                        return None
            layers.append(list(found.values()))
        return layers

    def explaining(self, goals: Sequence[_Node], reported: ReportedRanges) -> list[_Node]:
        """The nodes whose assignment a report shows, with contested points owned as in one of the possible orders.

        What is reported of namesakes may lack ranges that they share (`report_agrees`), so that it contradicts no
        assignment with more of them. If it is whole for some assignments, it shows those.
        """
        twins = [with_open_joins(node.selector, self._changes, self._precedes) for node in goals]
        for twin in twins:
            twin.learn(reported.owner_of_range)
        agreeing = [(node, twin) for node, twin in zip(goals, twins, strict=True) if twin.agrees(reported)]
        whole = [node for node, twin in agreeing if twin.ranges() == reported] if len(agreeing) > 1 else []
        return whole or [node for node, _ in agreeing]

    def only(self, root: Selector) -> Orders:
        """The changes in the given order, as an incomplete result."""
        states = [root]
        for change in self._changes:
            states.append(with_change(states[-1].copy(), change))
        return Orders([*range(len(self._changes))], [[state] for state in states], self._precedes, False)

    def orders_to(self, layers: list[list[_Node]], goals: list[_Node]) -> Orders:
        """The orders and states on the paths to one of the goals."""
        for goal in goals:
            goal.leads_on = True
        for layer in reversed(layers[:-1]):
            for node in layer:
                node.leads_on = any(child.leads_on for _, child in node.following)
        live = [[node for node in layer if node.leads_on] for layer in layers]
        node, path = live[0][0], [live[0][0]]
        order: list[int] = []
        while len(order) < len(self._changes):
            number, node = min(
                ((number, child) for number, child in node.following if child.leads_on), key=lambda step: step[0]
            )
            order.append(number)
            path.append(node)
        states = [
            [first.selector, *(node.selector for node in layer if node is not first)]
            for first, layer in zip(path, live, strict=True)
        ]
        return Orders(order, states, self._certain(live), complete=True)

    def _certain(self, live: list[list[_Node]]) -> Precedence:
        """Which change precedes which on every path; for changes that commute only what was known before."""
        count = len(self._changes)
        sets = {node.applied for layer in live for node in layer}
        precedes: Precedence = self._precedes.copy()
        for one in range(count):
            for other in range(count):
                if one == other or not self._related[one] >> other & 1:
                    continue
                before = any(applied >> one & 1 and not applied >> other & 1 for applied in sets)
                after = any(applied >> other & 1 and not applied >> one & 1 for applied in sets)
                precedes[one, other] |= before and not after
        return precedes

    def _ruled_out(self, change: Change, selector: Selector, applied: int) -> bool:
        if change.kind != "join":
            return False
        if change.consumer not in selector:
            # The broker admitted the consumer, so the conflict had not begun yet, or was over.
            return True
        may: bool = selector.may_become(change.consumer, self._observed, bool(self._leaves & ~applied))
        return not may

    def _choices(self, applied: int) -> list[int]:
        """The changes to try next; of changes whose order does not matter only the first."""
        enabled = [
            number
            for number, before in enumerate(self._before)
            if not applied >> number & 1 and before & applied == before
        ]
        related = self._related[enabled[0]]
        return [number for number in enabled if number == enabled[0] or related >> number & 1]

    def _components(self, selector: Selector) -> list[int]:
        """For each change the others whose order relative to it may matter, directly or through others (bits)."""
        count = len(self._changes)
        related = [0] * count
        for one in range(count):
            for other in range(one):
                known = self._precedes[one, other] or self._precedes[other, one]
                if not known and not self._commute(selector, self._changes[one], self._changes[other]):
                    related[one] |= 1 << other
                    related[other] |= 1 << one
        # A change that certainly precedes one of them, but is not ordered relative to another, opens paths as well.
        grown = True
        while grown:
            grown = False
            for one in range(count):
                reach = related[one]
                for other in range(count):
                    if related[one] >> other & 1:
                        reach |= related[other] | self._unordered_before(other, related[one] | 1 << one)
                reach &= ~(1 << one)
                grown |= reach != related[one]
                related[one] = reach
        return related

    def _unordered_before(self, number: int, component: int) -> int:
        """The changes that precede a change, but are not ordered relative to another one of its component (bits)."""
        found, before = 0, self._before[number] & ~component
        while before:
            other = before.bit_length() - 1
            before &= ~(1 << other)
            if component & ~self._ordered[other]:
                found |= 1 << other
        return found

    @staticmethod
    def _commute(selector: Selector, one: Change, other: Change) -> bool:
        return "reset" not in (one.kind, other.kind) and selector.commute(one, other)
