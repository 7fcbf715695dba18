"""What is undecided, against all orders that are possible, tried one by one."""

from itertools import permutations
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.assignment import Selector, make_selector
from dispatch_audit.pipeline.assignment.join_orders import Burst, Precedence
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import ALL_HASHES, HashRanges, covers, differing
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.resolve import Resolved, closed, resolve
from dispatch_audit.pipeline.assignment.selectors.selector import with_change
from dispatch_audit.pipeline.contract.profile import SelectorKind

# So few hashes to so many points that consumers contend for them.
SELECTORS: dict[str, tuple[SelectorKind, int, str]] = {
    "ring of 4.x": ("consistent_hashing", 150, "pulsar-4.2.4"),
    "ring of 3.x": ("consistent_hashing", 150, "pulsar-3.0.7"),
    "shared ring": ("consistent_hashing", 20, "pulsar-3.0.0"),
    "AutoSplit": ("auto_split", 1, "pulsar-4.2.4"),
    "declared": ("exclusive", 1, "pulsar-4.2.4"),
}
ENOUGH = 5_000


class Drawn(NamedTuple):
    """Changes that overlap: a selector before them, what is known of their order, and the order that was."""

    before: Selector
    changes: list[Change]
    precedes: Precedence
    happened: tuple[int, ...]


def fresh(kind: str) -> Selector:
    selector, points, profile = SELECTORS[kind]
    return make_selector(selector, points, profile)


def declared(consumer: int) -> tuple[tuple[int, int], ...]:
    """The ranges of a STICKY consumer; no two of them overlap."""
    return ((consumer * 1_000, consumer * 1_000 + 499), (consumer * 1_000 + 500, consumer * 1_000 + 999))


def drawn(rng: Random, kind: str, changes_max: int = 5) -> Drawn:
    """A random burst of changes, each inside of an interval."""
    before = fresh(kind)
    names = ("same",) if rng.random() < 0.3 else tuple("abcdefgh")
    there = list(range(rng.randint(0, 4)))
    named = {consumer: rng.choice(names) for consumer in there}
    for consumer in there:
        before.add(consumer, named[consumer], declared(consumer))
    changes: list[Change] = []
    for number in range(rng.randint(2, changes_max)):
        if there and rng.random() < 0.4:
            leaver = there.pop(rng.randrange(len(there)))
            changes.append(Change("leave", leaver, named[leaver]))
        else:
            changes.append(Change("join", 10 + number, rng.choice(names), declared(10 + number)))
    if rng.random() < 0.3:
        changes[rng.randrange(len(changes))] = Change("reset", -1, "")
    moments = [rng.random() for _ in changes]
    spans = [(moment - rng.random() / 2, moment + rng.random() / 2) for moment in moments]
    precedes = np.array([[end <= start for start, _ in spans] for _, end in spans])
    happened = tuple(sorted(range(len(changes)), key=moments.__getitem__))
    order = sorted(range(len(changes)), key=lambda number: spans[number][1])
    changes = [changes[number] for number in order]
    return Drawn(before, changes, closed(precedes[np.ix_(order, order)]), tuple(order.index(n) for n in happened))


def states(burst: Drawn, order: tuple[int, ...]) -> list[Selector]:
    """The selectors before the first change and after each one, in an order."""
    found = [burst.before]
    for number in order:
        found.append(with_change(found[-1].copy(), burst.changes[number]))
    return found


def resolved(burst: Drawn, reported: ReportedRanges | None, nodes_max: int = ENOUGH) -> Resolved:
    observed = Observed(reported, NO_DISPATCHES)
    return resolve([burst.before], Burst(burst.changes, burst.precedes, observed), nodes_max)


def agree(some: Selector, others: Selector, but_for: HashRanges) -> bool:
    return covers(but_for, differing([some.routing(), others.routing()]))


@pytest.mark.parametrize("kind", SELECTORS)
@examples(120)
@given(seed=st.integers(0, 2**32), shown=st.booleans())
def test_no_possible_order_contradicts_what_is_decided(kind: str, seed: int, shown: bool) -> None:
    made = drawn(Random(seed), kind)
    reported = states(made, made.happened)[-1].ranges() if shown else None
    found = resolved(made, reported)
    assert found.complete
    for order in permutations(range(len(made.changes))):
        place = {number: at for at, number in enumerate(order)}
        if any(place[one] > place[other] for one, other in np.argwhere(made.precedes).tolist()):
            continue
        way = states(made, order)
        if reported is not None and way[-1].ranges() != reported:
            assert order != made.happened
            continue
        for at, state in enumerate(way):
            assert agree(state, found.possible[0] if at == len(order) else found.selectors[at], found.undecided[at])


@pytest.mark.parametrize("kind", SELECTORS)
@examples(60)
@given(seed=st.integers(0, 2**32))
def test_after_a_report_everything_is_as_it_says(kind: str, seed: int) -> None:
    made = drawn(Random(seed), kind)
    reported = states(made, made.happened)[-1].ranges()
    found = resolved(made, reported)
    assert found.possible[0].ranges() == reported
    # It does not show in which order consumers of one name share their hashes.
    assert found.undecided[-1] == () or kind == "shared ring"


@pytest.mark.parametrize("kind", SELECTORS)
def test_thirty_joins_at_one_time_are_told_apart_by_what_follows(kind: str) -> None:
    rng = Random(1)
    changes = [Change("join", consumer, f"consumer-{consumer}", declared(consumer)) for consumer in range(30)]
    happened = tuple(rng.sample(range(30), 30))
    made = Drawn(fresh(kind), changes, np.zeros((30, 30), dtype=np.bool_), happened)
    way = states(made, happened)
    found = resolved(made, way[-1].ranges(), nodes_max=100)
    assert found.complete
    assert found.possible[0].ranges() == way[-1].ranges()
    if kind == "AutoSplit":
        assert tuple(found.order) == happened
        assert set(found.undecided) == {()}


def test_beyond_the_limit_nothing_is_known_until_a_report() -> None:
    changes = [Change("join", consumer, "") for consumer in range(8)]
    made = Drawn(fresh("AutoSplit"), changes, np.zeros((8, 8), dtype=np.bool_), tuple(range(8)))
    found = resolved(made, None, nodes_max=100)
    assert not found.complete
    assert found.undecided[1:] == [ALL_HASHES] * 8
    reported = states(made, (3, 1, 2, 0, 7, 6, 5, 4))[-1].ranges()
    again = resolved(made, reported, nodes_max=4)
    assert again.complete
    assert again.possible[0].ranges() == reported
    assert (again.undecided[1], again.undecided[-1]) == (ALL_HASHES, ())


def test_a_report_that_no_order_leads_to_says_nothing_of_the_order() -> None:
    made = drawn(Random(3), "AutoSplit")
    impossible = ReportedRanges.of([(0, 65536, 99)])
    with_it, without = resolved(made, impossible), resolved(made, None)
    assert (with_it.order, with_it.undecided) == (without.order, without.undecided)
