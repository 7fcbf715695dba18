"""What Pulsar's selectors of 13 releases answered (tests/data/golden/rings), and rings that consumers share."""

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from known_changes import join

from dispatch_audit.pipeline.assignment import NOBODY, AssignmentLog, Selector, hashes_moved, make_selector
from dispatch_audit.pipeline.assignment.join_orders import Burst
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import contains, differing, owned_by
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.resolve import resolve
from dispatch_audit.pipeline.assignment.selectors.ring_points import ring_points
from dispatch_audit.pipeline.assignment.shares import HashShares
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind, profile_for
from dispatch_audit.pipeline.errors import AssignmentError
from dispatch_audit.udfs.sticky_key_hash import HashRange, sticky_hashes

RINGS = sorted((Path(__file__).resolve().parents[1] / "data/golden/rings").glob("*.txt"))
ALL = HashRange(0, 2**31 - 1, zero_means_unset=False)
KEYS = ("key-0", "key-1", "key-2", "key-3", "order-42", "NONE_KEY")


class Answers:
    """What the selectors of one release answered, and the selectors that the audit makes for it."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        self.profile: Profile = profile_for(path.stem, {})

    def found(self, pattern: str) -> list[str]:
        """The groups of the one place that matches."""
        (match,) = re.finditer(pattern, self.text, re.MULTILINE)
        return [*match.groups()]

    def selector(self, *names: str, kind: SelectorKind = "consistent_hashing") -> Selector:
        selector = make_selector(kind, profile=self.profile)
        for consumer, name in enumerate(names):
            selector.add(consumer, name)
        return selector

    def hashes(self, keys: Sequence[str], kind: SelectorKind = "consistent_hashing") -> list[int]:
        hashes: list[int] = sticky_hashes([key.encode() for key in keys], self.profile.hash[kind]).tolist()
        return hashes

    def points(self, name: str, index: int, points: int) -> list[int]:
        """The points in the order of their numbers."""
        rule, text = self.profile.hash["consistent_hashing"], self.profile.ring_point_text
        found: list[int] = []
        for size in range(1, points + 1):
            found += set(ring_points(name, index, size, rule, text).tolist()) - set(found)
        return found


@pytest.fixture(params=RINGS, ids=[path.stem for path in RINGS])
def answers(request: pytest.FixtureRequest) -> Answers:
    return Answers(request.param)


def size(ring: Selector) -> int:
    """The number of points on a ring."""
    return ring.routing().uppers.size - 1


def test_there_are_the_answers_of_each_ring() -> None:
    profiles = [profile_for(path.stem, {}) for path in RINGS]
    assert {(profile.ring_collision, profile.ring_point_text) for profile in profiles} == {
        ("shared_by_modulo", "name_i"),
        ("shared_by_modulo", "name_nul_i"),
        ("newcomer_replaces", "name_nul_index_nul_i"),
        ("incumbent_keeps", "name_nul_index_nul_i"),
    }


@pytest.mark.parametrize("name", ["c1", "consumer-0", "consumer11", "app-7f9c-2", "äö"])
def test_the_points_of_a_name(answers: Answers, name: str) -> None:
    first, lowest = answers.found(rf"^points {name} i=0,1,2: \[(.*)\]  lowest of 100: \[(.*)\]$")
    points = answers.points(name, 0, 100)
    assert ", ".join(map(str, points[:3])) == first
    assert ", ".join(map(str, sorted(points)[:3])) == lowest


def test_the_points_of_a_second_consumer_of_the_same_name(answers: Answers) -> None:
    (points,) = answers.found(r"^points second consumer named c1 i=0,1,2: \[(.*)\]$")
    if points == "-1, -1, -1":
        assert size(answers.selector("c1", "c1")) == size(answers.selector("c1"))
    else:
        assert ", ".join(map(str, answers.points("c1", 1, 3))) == points


def test_three_consumers(answers: Answers) -> None:
    points, owners = answers.found(r"^c1,c2,c3 (\d+) points; (.*?) ?$")
    ring = answers.selector("c1", "c2", "c3")
    assert size(ring) == int(points)
    selected = [f"{key}=c{1 + ring.select(h)}" for key, h in zip(KEYS, answers.hashes(KEYS), strict=True)]  # type: ignore[operator]  # never None
    assert " ".join(selected) == owners


def test_the_ranges_that_three_consumers_report(answers: Answers) -> None:
    (ranges,) = answers.found(r"^c1,c2,c3 .*\n  ranges \{(.*)\}$")
    ring = answers.selector("c1", "c2", "c3")
    reported = []
    for consumer in range(3):
        own = [[start, end] for start, end, owner in ring.ranges().rows if owner == consumer]
        reported.append(f"c{consumer + 1}={len(own)}:{own[:3]}..{own[-1]}")
    assert ", ".join(reported) == ranges


def test_two_names_of_which_one_begins_like_the_other(answers: Answers) -> None:
    (points,) = answers.found(r"^consumer11 then consumer1: (\d+) points$")
    ring = answers.selector("consumer11", "consumer1")
    assert size(ring) == int(points)
    if answers.profile.ring_point_text != "name_i":
        return
    shared, before, even, odd, left, heir = answers.found(
        r"at the shared point (\d+) \(prev (\d+)\): parity->consumer \{0->(\w+)=2, 1->(\w+)=2\}\n"
        r"  after removal of consumer11: (\d+) points, there (\w+)$"
    )
    named = {0: "consumer11", 1: "consumer1", None: "nobody"}
    for sticky_hash in (int(before) + 1, int(before) + 2, int(shared) - 1, int(shared)):
        assert named[ring.select(sticky_hash)] == (odd if sticky_hash % 2 else even)
    ring.remove(0)
    assert (size(ring), named[ring.select(int(shared))]) == (int(left), heir)


def test_two_consumers_of_one_name(answers: Answers) -> None:
    points, first, second, left, rest = answers.found(
        r"^two named same: (\d+) points, keys k0\.\.k999: first (\d+) second (\d+)\n"
        r"  after the first left: (\d+) points, second gets (\d+)$"
    )
    ring = answers.selector("same", "same")
    hashes = answers.hashes([f"k{number}" for number in range(1_000)])
    selected = ring.routing().owners_of(hashes)
    counts = size(ring), int(np.count_nonzero(selected == 0)), int(np.count_nonzero(selected == 1))
    assert counts == (int(points), int(first), int(second))
    ring.remove(0)
    assert size(ring) == int(left)
    assert np.count_nonzero(ring.routing().owners_of(hashes) == 1) == int(rest)


def test_a_collision_and_each_of_the_two_leaving(answers: Answers) -> None:
    one, other, at, *rest = answers.found(
        r"^collision of (\w+) \(first\) and (\w+) at (\d+): (\d+) points, owner (\w+); "
        r"later one leaves: (\d+) points, at the point ([\w ]+); earlier one leaves: (\d+) points, (\w+)$"
    )
    points, owner, without_later, keeps, without_earlier, heir = rest
    named, point = {0: one, 1: other}, int(at)
    ring = answers.selector(one, other)
    assert size(ring) == int(points)
    assert named[ring.select(point)] == owner  # type: ignore[index]  # never None
    later_left, earlier_left = ring.copy(), ring.copy()
    later_left.remove(1)
    earlier_left.remove(0)
    assert (size(later_left), size(earlier_left)) == (int(without_later), int(without_earlier))
    assert named[earlier_left.select(point)] == heir  # type: ignore[index]  # never None
    assert (point in later_left.routing().uppers) is (keeps != "no point")
    assert named[later_left.select(point)] == one  # type: ignore[index]  # never None


def test_auto_split(answers: Answers) -> None:
    ranges, owners, left = answers.found(r"^auto split a0\.\.a5 \{(.*?)\} (.*?) ?\n  without a0, a3 \{(.*)\}$")
    split = answers.selector(*(f"a{number}" for number in range(6)), kind="auto_split")
    assert _reported(split, "a", range(6)) == ranges
    hashes = answers.hashes(KEYS, "auto_split")
    assert " ".join(f"{key}=a{split.select(h)}" for key, h in zip(KEYS, hashes, strict=True)) == owners
    split.remove(0)
    split.remove(3)
    assert _reported(split, "a", (1, 2, 4, 5)) == left


def _reported(selector: Selector, letter: str, consumers: Sequence[int]) -> str:
    of = {c: [[start, end] for start, end, owner in selector.ranges().rows if owner == c] for c in consumers}
    return ", ".join(f"{letter}{consumer}={len(own)}:{own}" for consumer, own in of.items() if own)


def test_exclusive_ranges(answers: Answers) -> None:
    at15, at31, at5, then15, then11, overlapping, ranges = answers.found(
        r"^exclusive e1 \[0,10\]\[20,30\] ok: 15->(\S+) 31->(\S+) 5->(\S+); e2 \[12,18\] ok: 15->(\S+) 11->(\S+); "
        r"\[30,40\] ConsumerAssignException; \[31,31\] ok 31->e4; \[40,60\]\[50,70\] of one (\w+); "
        r"\[80,75\] ConsumerAssignException; none ConsumerAssignException; ranges \{(.*)\}$"
    )
    sticky = make_selector("exclusive", profile=answers.profile)

    def at(slot: int) -> str:
        owner = sticky.select(slot)
        return "-" if owner is None else f"e{owner}"

    sticky.add(1, "e1", [(0, 10), (20, 30)])
    assert (at(15), at(31), at(5)) == (at15, at31, at5)
    sticky.add(2, "e2", [(12, 18)])
    assert (at(15), at(11)) == (then15, then11)
    with pytest.raises(AssignmentError):
        sticky.add(3, "e3", [(30, 40)])
    sticky.add(4, "e4", [(31, 31)])
    assert at(31) == "e4"
    if overlapping == "ok":
        sticky.add(5, "e5", [(40, 60), (50, 70)])
    else:
        with pytest.raises(AssignmentError):
            sticky.add(5, "e5", [(40, 60), (50, 70)])
    for declared in ([(80, 75)], []):
        with pytest.raises(AssignmentError):
            sticky.add(6, "e6", declared)
    assert _reported(sticky, "e", range(1, 6)) == ranges


def test_hashes_beyond_the_slots_of_exclusive_ranges(answers: Answers) -> None:
    (reported,) = answers.found(r"^exclusive h=0 1 65535 65536 70000 with \[0,65535\]: ok (\S+)$")
    sticky = make_selector("exclusive", profile=answers.profile)
    sticky.add(1, "whole", [(0, 65_535)])
    owners = [sticky.select(sticky_hash) for sticky_hash in (0, 1, 65_535, 65_536, 70_000)]
    assert "".join("-" if owner is None else "w" for owner in owners) == reported
    assert sticky.routing().owners_of([0, 70_000]).tolist() == [
        NOBODY if owner is None else owner for owner in (owners[0], owners[-1])
    ]


# ---- Rings that several consumers share ----


def shared_ring(*names: str, points: int = 100) -> Selector:
    ring = make_selector("consistent_hashing", points, "pulsar-3.0.0")
    for consumer, name in enumerate(names):
        ring.add(consumer, name)
    return ring


class JavaRing:
    """The class of 3.0.0, read line by line: a list of consumers for each point."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.points: dict[int, list[tuple[str, int]]] = {}

    def add(self, consumer: int, name: str, points: int) -> None:
        for number in range(points):
            (point,) = sticky_hashes([self.text.format(name, number).encode()], "raw").tolist()
            consumers = self.points.setdefault(point, [])
            if (name, consumer) not in consumers:
                consumers.append((name, consumer))
                consumers.sort(key=lambda found: found[0])

    def remove(self, consumer: int) -> None:
        for point, consumers in [*self.points.items()]:
            self.points[point] = [found for found in consumers if found[1] != consumer]
            if not self.points[point]:
                del self.points[point]

    def select(self, sticky_hash: int) -> int | None:
        if not self.points:
            return None
        point = min((point for point in self.points if point >= sticky_hash), default=min(self.points))
        return self.points[point][sticky_hash % len(self.points[point])][1]


@pytest.mark.parametrize(("profile", "text"), [("pulsar-3.1.0", "{}{}"), ("pulsar-3.3.0", "{}\0{}")])
@pytest.mark.parametrize("seed", range(6))
def test_any_history_leads_to_the_ring_of_the_class(profile: str, text: str, seed: int) -> None:
    rng = Random(seed)
    points = rng.choice([1, 3, 120])
    model, ring = JavaRing(text), make_selector("consistent_hashing", points, profile)
    there: list[int] = []
    for consumer in range(14):
        if there and rng.random() < 0.4:
            leaver = there.pop(rng.randrange(len(there)))
            model.remove(leaver)
            ring.remove(leaver)
        name = rng.choice(["x", "x1", "x11", "y"])
        model.add(consumer, name, points)
        ring.add(consumer, name)
        there.append(consumer)
        edges = [point + step for point in rng.sample([*model.points], min(20, len(model.points))) for step in (0, 1)]
        for sticky_hash in (0, 2**31 - 1, *edges, *(rng.randrange(2**31) for _ in range(10))):
            assert ring.select(sticky_hash) == model.select(sticky_hash)


def test_the_consumers_of_a_point_come_in_the_order_of_their_names_whoever_joined_first() -> None:
    names = ["x", "x1", "x11", "x111", "äö", "\U0001f600"]
    forwards, backwards = shared_ring(*names), shared_ring(*reversed(names))
    hashes = np.random.default_rng(1).integers(0, 2**31, 5_000)
    assert (forwards.routing().owners_of(hashes) == 5 - backwards.routing().owners_of(hashes)).all()


def test_names_are_ordered_as_java_orders_texts() -> None:
    ring = shared_ring("\uffee", "\U0001f600", points=1)
    # Two points that are made to collide: the order of the list is what is tested.
    ring._at = {7: ring._ordered((0, 1))}  # type: ignore[attr-defined]  # of a ring only
    assert ring.ranges().rows == ((0, 7, 0), (0, 7, 1))
    assert [ring.select(sticky_hash) for sticky_hash in (6, 7)] == [1, 0]


def test_a_join_moves_hashes_between_the_others_where_three_share_a_point() -> None:
    # x1 has so many points that x111 has some of them too.
    before = shared_ring("x1", "x11", points=200)
    after = before.copy()
    after.add(2, "x111")
    hashes = np.random.default_rng(2).integers(0, 2**31, 200_000)
    then, now = before.routing().owners_of(hashes), after.routing().owners_of(hashes)
    between_others = (then != now) & (now != 2)
    assert between_others.any()
    # The undecided hashes of such a join are all that it may move.
    moved = differing([before.routing(), after.routing()])
    assert contains(moved, hashes[then != now]).all()
    assert contains(owned_by(after.routing(), 2), hashes[now == 2]).all()


@pytest.mark.parametrize("names", [("x1", "x11", "x111"), ("same", "same", "same"), ("a", "b", "c")])
def test_the_hashes_that_a_change_moves_are_counted_one_by_one(names: tuple[str, ...]) -> None:
    before = shared_ring(*names[:2], points=5)
    after = shared_ring(*names, points=5)
    rng = np.random.default_rng(3)
    for _ in range(20):
        first = int(rng.integers(0, 2**31 - 3_000))
        hashes = np.arange(first, first + int(rng.integers(1, 3_000)))
        moved = np.count_nonzero(before.routing().owners_of(hashes) != after.routing().owners_of(hashes))
        space = HashRange(first, int(hashes[-1]), zero_means_unset=False)
        assert hashes_moved(before.routing(), after.routing(), space) == moved
    assert hashes_moved(before.routing(), before.copy().routing(), ALL) == 0


def test_a_routing_keeps_the_sharers_under_other_numbers() -> None:
    routing = shared_ring("x1", "x11", "x111", points=200).routing()
    renamed = routing.with_owners(lambda numbers: np.where(numbers >= 0, numbers + 7, numbers))
    hashes = np.random.default_rng(4).integers(0, 2**31, 5_000)
    assert (renamed.owners_of(hashes) == routing.owners_of(hashes) + 7).all()
    assert {len(sharers) for sharers in renamed.lists.values()} == {2, 3}


def test_the_order_of_joins_of_one_name_is_open_and_of_several_is_not() -> None:
    precedes = np.zeros((2, 2), dtype=np.bool_)

    def undecided(*names: str) -> bool:
        changes = [Change("join", consumer, name) for consumer, name in enumerate(names)]
        found = resolve([shared_ring()], Burst(changes, precedes, Observed(None, NO_DISPATCHES)), 100)
        assert found.complete
        return bool(found.undecided[-1])

    assert undecided("same", "same")
    assert not undecided("x1", "x11")


def test_a_report_that_shows_shared_ranges_otherwise_contradicts_no_owner() -> None:
    ring = shared_ring("x1", "x11")
    ranges = ring.ranges().rows
    tail = (ranges[-1][1] + 1, 2**31 - 2)
    of_first = ranges[0][2]
    shared = {(start, end) for start, end, owner in ranges if (start, end, 1 - owner) in ranges}
    alone = next(one for one in ranges if one[:2] not in shared and one[0] > 0)
    for_one = [one for one in ranges if one[:2] not in shared or one[2] == 0]
    assert ring.agrees(ReportedRanges.of(ranges))
    assert ring.agrees(ReportedRanges.of([*ranges, (*tail, of_first)]))
    assert ring.agrees(ReportedRanges.of(for_one))
    assert not ring.agrees(ReportedRanges.of([*ranges, (*tail, 1 - of_first)]))
    assert not ring.agrees(ReportedRanges.of([one for one in ranges if one != alone]))
    assert not ring.agrees(ReportedRanges.of([*ranges, (alone[0], alone[1], 1 - alone[2])]))
    assert not ring.agrees(ReportedRanges.of([*ranges, (*alone[:2], 7)]))


def test_a_report_of_a_ring_without_shared_points_agrees_only_as_it_is() -> None:
    ring = make_selector("consistent_hashing", profile="pulsar-3.0.7")
    ring.add(0, "a")
    ring.add(1, "b")
    ranges = ring.ranges().rows
    assert ring.agrees(ReportedRanges.of(ranges))
    assert not ring.agrees(ReportedRanges.of(ranges[:-1]))
    assert not ring.agrees(ReportedRanges.of(ranges[1:]))


def test_the_share_of_a_range_is_divided_between_those_that_share_it() -> None:
    log = AssignmentLog("consistent_hashing", profile="pulsar-3.0.0")
    for consumer, name in enumerate(("same", "same", "other")):
        join(log, consumer, name, consumer)
    assert log.current is not None
    shares = HashShares()
    shares.add(log.current, 1_000)
    hashes = np.random.default_rng(5).integers(0, 2**31, 100_000)
    owners = log.routing.owners_of(hashes)
    for consumer, share in shares.of_all().items():
        assert abs(share - float(np.mean(owners == consumer))) < 0.01


def test_a_report_of_a_shared_ring_is_taken_over_where_names_decide() -> None:
    ring = shared_ring("x1", "x11")
    assert ring.adopt(ring.ranges())
    assert not ring.adopt(shared_ring("x1", "x12").ranges())
    same = shared_ring("same", "same")
    assert not same.adopt(same.ranges())
