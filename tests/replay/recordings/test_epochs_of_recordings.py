"""No epoch of a recording is wrong without saying so; and what counts as right, undecided and wrong."""

from dataclasses import dataclass

import pytest
from hash_sets import agree, contains, fused, size, without
from local_replay import replayed_recording
from oracle import oracle_rows
from recorded import ALL, RECORDINGS, of_each
from recording_epochs import Claim, Judged, State, judged, judged_recording, line, states_of

EVERYTHING = (0, 2**31 - 1)


@pytest.mark.heavy
@of_each(ALL, one_in=3)
def test_no_epoch_of_a_recording_is_wrong(name: str) -> None:
    found = judged_recording(name, replayed_recording(name))
    print("\n" + line(name, found))
    assert found.right + found.undecided > 0
    assert found.wrong == []


@of_each(ALL)
def test_the_states_of_the_broker_are_right_epochs(name: str) -> None:
    # The measure itself: what the broker had is right, and each of its states is one.
    for group in replayed_recording(name):
        rows = oracle_rows(RECORDINGS / name)
        states = states_of(rows, group, {row["ci"] for row in rows if "ci" in row})
        assert len({state.present for state in states}) == len(states)
        assert judged([_claim(state) for state in states], states) == Judged(right=len(states))


@dataclass
class Burst:
    """Consumer 1 is there, 2 and 3 join in this order, 2 leaves; each newcomer takes half of the hashes of 1."""

    states: tuple[State, ...]

    @property
    def claims(self) -> list[Claim]:
        return [_claim(state) for state in self.states]


def _claim(state: State, *undecided: tuple[int, int]) -> Claim:
    return Claim(state.seq, state.seq + 1, state.change, state.present, state.owned, undecided)


def _state(seq: int, change: str, joined: str, there: str, **owned: tuple[int, int]) -> State:
    present = frozenset(map(int, joined)), frozenset(map(int, there))
    return State(seq, change, present, {int(consumer[1:]): [ranges] for consumer, ranges in owned.items()})


@pytest.fixture
def burst() -> Burst:
    return Burst(
        (
            _state(10, "join 1", "1", "1", c1=(0, 99)),
            _state(20, "join 2", "12", "12", c2=(0, 49), c1=(50, 99)),
            _state(21, "join 3", "123", "123", c2=(0, 49), c3=(50, 74), c1=(75, 99)),
            _state(30, "leave 2", "123", "13", c3=(0, 74), c1=(75, 99)),
        )
    )


# The audit has 3 before 2, so that 3 takes the lower half.
SWAPPED = _state(20, "join 3", "13", "13", c3=(0, 49), c1=(50, 99))


def test_another_order_is_wrong_as_long_as_it_matters(burst: Burst) -> None:
    first, _, _, last = burst.claims
    both = _claim(_state(21, "join 2", "123", "123", c3=(0, 49), c2=(50, 74), c1=(75, 99)))
    found = judged([first, _claim(SWAPPED), both, last], burst.states)
    assert found.right == 2
    assert [words.split(",")[0] for words in found.wrong] == ["join 3 at 20", "join 2 at 21"]


def test_an_epoch_without_a_state_must_agree_with_all_that_may_have_been(burst: Burst) -> None:
    first, _, third, last = burst.claims
    reported = _claim(SWAPPED, (0, 49))
    assert judged([first, reported, third, last], burst.states) == Judged(right=3, undecided=1)
    # Only hashes on which the orders agree are left.
    assert judged([first, _claim(SWAPPED, (0, 48)), third, last], burst.states).wrong != []


def test_an_epoch_that_says_what_it_does_not_know_is_undecided(burst: Burst) -> None:
    first, second, third, last = burst.claims
    reported = third._replace(owned={3: [(0, 49)], 2: [(50, 74)], 1: [(75, 99)]})
    assert len(judged([first, second, reported, last], burst.states).wrong) == 1
    for undecided in ((0, 74), EVERYTHING):
        found = judged([first, second, reported._replace(undecided=(undecided,)), last], burst.states)
        assert found == Judged(right=3, undecided=1)
    # It says so, but not of every hash that is wrong.
    assert len(judged([first, second, reported._replace(undecided=((0, 73),)), last], burst.states).wrong) == 1


def test_an_epoch_that_the_broker_did_not_have_is_wrong(burst: Burst) -> None:
    first, second, third, last = burst.claims
    extra = _claim(_state(15, "join 4", "14", "14", c4=(0, 9), c1=(10, 99)))
    assert len(judged([first, extra, second, third, last], burst.states).wrong) == 1


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_state_that_nobody_claims_is_wrong(burst: Burst, missing: int) -> None:
    claims = burst.claims
    del claims[missing]
    found = judged(claims, burst.states)
    assert found.right == 3
    assert len(found.wrong) == 1


def test_one_that_comes_and_goes_makes_another_state_of_the_same_consumers() -> None:
    # AutoSplit: after it the ranges are not those from before.
    states = (
        _state(10, "join 1", "1", "1", c1=(0, 99)),
        _state(20, "join 2", "12", "12", c2=(0, 49), c1=(50, 99)),
        _state(21, "join 3", "123", "123", c2=(0, 49), c3=(50, 74), c1=(75, 99)),
        _state(22, "leave 3", "123", "12", c2=(0, 49), c1=(50, 99)),
    )
    other = _state(22, "leave 3", "123", "12", c1=(0, 49), c2=(50, 99))
    assert len(judged([*map(_claim, states[:3]), _claim(other)], states).wrong) == 1


def test_hashes_as_ranges() -> None:
    assert fused([(5, 6), (0, 1), (2, 3), (9, 9)]) == [(0, 3), (5, 6), (9, 9)]
    assert without([(0, 9)], [(3, 4), (9, 12)]) == [(0, 2), (5, 8)]
    assert without([(0, 3)], [EVERYTHING]) == []
    assert (size([(0, 3), (2, 5)]), contains([(0, 3)], 3), contains([(0, 3)], 4)) == (6, True, False)
    assert agree({1: [(0, 4), (5, 9)], 2: []}, {1: [(0, 9)]})
    assert not agree({1: [(0, 9)]}, {1: [(0, 8)], 2: [(9, 9)]})
    assert agree({1: [(0, 9)]}, {1: [(0, 8)], 2: [(9, 9)]}, [(9, 9)])
