"""What holds for every selector of every version, over random histories."""

from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch_audit.pipeline.assignment import NOBODY, Selector, hashes_moved, make_selector
from dispatch_audit.pipeline.assignment.selectors import auto_split
from dispatch_audit.pipeline.assignment.selectors.factory import slot_range
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_named
from dispatch_audit.pipeline.errors import AssignmentError, UsageError

# One profile for each set of rules: shared rings, the ring of 3.0.7, classic, the gap flaw, and the present.
PROFILES = ["pulsar-3.0.0", "pulsar-3.0.3", "pulsar-3.0.7", "pulsar-4.0.0-classic", "pulsar-4.0.3", "pulsar-4.2.4"]
KINDS: list[SelectorKind] = ["consistent_hashing", "auto_split", "exclusive"]
Operation: TypeAlias = tuple[str, int, str, list[tuple[int, int]]]

bounds = st.integers(0, 60) | st.integers(0, 65_535)
operations = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove"]),
        st.integers(0, 7),
        st.sampled_from(["a", "b", "ä\0"]),
        st.lists(st.tuples(bounds, st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))), max_size=3),
    ),
    max_size=25,
)
selectors = st.tuples(st.sampled_from(KINDS), st.integers(1, 12), st.sampled_from(PROFILES))


def _apply(selector: Selector, operation: Operation) -> bool:
    """Whether the selector took the operation."""
    action, consumer, name, ranges = operation
    if action == "remove":
        return selector.remove(consumer)
    try:
        selector.add(consumer, name, ranges)
    except AssignmentError:
        return False
    return True


@settings(deadline=None)
@given(selectors, operations, st.lists(st.integers(0, 2**31 - 1), max_size=40))
def test_routing_equals_select(
    made: tuple[SelectorKind, int, str], history: list[Operation], murmurs: list[int]
) -> None:
    selector = make_selector(*made)
    for operation in history:
        _apply(selector, operation)
    edges = {edge + step for row in selector.ranges().rows for edge in row[:2] for step in (-1, 0, 1)}
    hashes = sorted({0, 1, 65_535, 65_536, 2**31 - 1, *murmurs, *(edge for edge in edges if edge >= 0)})
    selected = [selector.select(sticky_hash) for sticky_hash in hashes]
    routed = selector.routing().owners_of(hashes).tolist()
    assert routed == [NOBODY if consumer is None else consumer for consumer in selected]


@settings(deadline=None)
@given(selectors, operations)
def test_auto_split_mode_ranges_partition_the_hash_range(
    made: tuple[SelectorKind, int, str], history: list[Operation]
) -> None:
    kind, _, profile = made
    if kind == "exclusive":
        return
    selector = make_selector(*made)
    for operation in history:
        _apply(selector, operation)
    ranges = selector.ranges().rows
    assert bool(ranges) == any(consumer in selector for consumer in range(8))
    if not ranges:
        return
    # Several consumers may have one range.
    bounds_of = sorted({(start, end) for start, end, _ in ranges})
    assert all(left[1] + 1 == right[0] for left, right in pairwise(bounds_of))
    assert all(start <= end for start, end, _ in ranges)
    space = slot_range(kind, profile)
    assert ranges[0][0] == space.first
    # The broker reports 65536 for AutoSplit, one hash too few for the ring of 3.0.7, and older rings to the last point.
    reported_last = 65_536 if kind == "auto_split" else min(space.last, 2**31 - 2)
    if kind == "consistent_hashing" and profile in ("pulsar-3.0.0", "pulsar-3.0.3"):
        reported_last = int(selector.routing().uppers[-2])
    assert ranges[-1][1] == reported_last


@settings(deadline=None)
@given(selectors, operations)
def test_what_is_refused_changes_nothing(made: tuple[SelectorKind, int, str], history: list[Operation]) -> None:
    selector = make_selector(*made)
    for operation in history:
        ranges, routing = selector.ranges(), selector.routing()
        members = [consumer in selector for consumer in range(8)]
        if _apply(selector, operation):
            assert members != [consumer in selector for consumer in range(8)]
        else:
            assert selector.ranges() == ranges
            assert [consumer in selector for consumer in range(8)] == members
            assert hashes_moved(routing, selector.routing(), slot_range(made[0], made[2])) == 0


@settings(deadline=None)
@given(selectors, operations)
def test_a_routing_that_was_handed_out_stays(made: tuple[SelectorKind, int, str], history: list[Operation]) -> None:
    selector = make_selector(*made)
    kept = []
    for operation in history:
        routing = selector.routing()
        kept.append((routing, routing.uppers.tolist(), routing.owners.tolist()))
        _apply(selector, operation)
    for routing, uppers, owners in kept:
        assert routing.uppers.tolist() == uppers
        assert routing.owners.tolist() == owners


@settings(deadline=None)
@given(operations, st.integers(1, 12), st.sampled_from(["pulsar-4.0.0-classic", "pulsar-4.2.4"]))
def test_third_parties_never_exchange_hashes(history: list[Operation], points: int, profile: str) -> None:
    """contract 2.1: with the incumbent keeping its point, only the one who joins or leaves is concerned."""
    ring = make_selector("consistent_hashing", points, profile)
    for operation in history:
        before = ring.routing()
        _apply(ring, operation)
        after = ring.routing()
        both = sorted({*before.uppers.tolist(), *after.uppers.tolist()})
        for old, new in zip(before.owners_of(both).tolist(), after.owners_of(both).tolist(), strict=True):
            assert old == new or operation[1] in (old, new)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", KINDS)
def test_who_is_in_cannot_join_and_who_is_out_cannot_leave(kind: SelectorKind, profile: str) -> None:
    selector = make_selector(kind, profile=profile)
    selector.add(1, "c1", [(0, 9)])
    before = selector.ranges()
    with pytest.raises(AssignmentError, match="joined twice"):
        selector.add(1, "c1", [(20, 29)])
    with pytest.raises(AssignmentError, match="negative"):
        selector.add(-1, "c2", [(20, 29)])
    assert not selector.remove(2)
    assert selector.ranges() == before
    assert selector.remove(1)
    assert not selector.ranges().rows
    assert selector.select(5) is None


def test_auto_split_refuses_when_no_interval_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_split, "_TOP", 4)
    selector = make_selector("auto_split")
    for consumer in range(4):
        selector.add(consumer, "c")
    before = selector.ranges()
    assert before.rows == ((0, 1, 2), (2, 2, 1), (3, 3, 3), (4, 4, 0))
    with pytest.raises(AssignmentError, match="no interval is left"):
        selector.add(4, "c")
    assert selector.ranges() == before


@pytest.mark.parametrize("kind", ["auto_split", "exclusive"])
def test_3x_reduces_the_murmur_value_inside_select(kind: SelectorKind) -> None:
    selector = make_selector(kind, profile="pulsar-3.0.7")
    selector.add(1, "c1", [(0, 9)])
    selector.add(2, "c2", [(40_000, 65_535)])
    for murmur in (5, 65_536 + 5, 2**31 - 1):
        assert selector.select(murmur) == selector.select(murmur % 65_536) is not None
        assert selector.routing().owners_of([murmur]).tolist() == [selector.select(murmur)]


def test_unknown_names_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no selector 'jump'"):
        make_selector("jump")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(UsageError, match=r"no profile 'pulsar-1\.0'"):
        make_selector("auto_split", profile="pulsar-1.0")
    with pytest.raises(UsageError, match="0 ring points"):
        make_selector("consistent_hashing", 0)


def test_the_newest_profile_is_the_default() -> None:
    by_default = make_selector("exclusive")
    by_profile = make_selector("exclusive", profile=profile_named("pulsar-4.2.4"))
    for selector in (by_default, by_profile):
        selector.add(1, "c1", [(0, 10), (20, 30)])
        assert selector.select(15) is None
