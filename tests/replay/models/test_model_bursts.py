"""Bursts of joins and leaves of a dispatcher that keeps its promise: no false alarm, no wrong epoch, little left open.

A schedule that fails is run again by its seed: `outcome_of_seed(SEED)`.
"""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from examples import examples, share_of
from hypothesis import given
from hypothesis import strategies as st
from model_bursts import Outcome, drawn, outcome, outcome_of_seed
from model_state import Bug
from test_model_dispatcher import FAULTS

MANY: Final = 2_000
SOME: Final = 40
# Of the epochs and of the dispatches, where the broker says after each change how it stands.
UNDECIDED_MAX: Final = 0.05
UNJUDGED_MAX: Final = 0.02


def _require_faultless(outcomes: list[tuple[int, Outcome]]) -> None:
    faults: Counter[str] = Counter()
    seeds: dict[str, int] = {}
    for seed, audit in outcomes:
        kinds = [
            *audit.broken,
            *["refused rows"] * bool(audit.refused),
            *["wrong epochs"] * bool(audit.epochs.wrong),
        ]
        kinds += ["entries not acknowledged"] * bool(audit.unacknowledged)
        faults.update(kinds)
        for kind in kinds:
            seeds.setdefault(kind, seed)
    assert dict(faults) == {}, f"of {len(outcomes)} schedules; the first of each kind is seed {seeds}"


@examples(60, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_small_burst_breaks_nothing(rng: Random) -> None:
    audit = outcome(rng, drawn(rng, changes_max=6))
    assert audit.faultless, audit


def test_who_is_listed_behind_a_seek_that_closed_nobody_joined_behind_it() -> None:
    # Clients came back before the end of the seek was recorded, and no row says whom it closed: a snapshot does.
    _require_faultless([outcome_of_seed(324)])


@pytest.mark.heavy
@pytest.mark.examples
def test_a_burst_breaks_nothing() -> None:
    _require_faultless([outcome_of_seed(seed) for seed in range(share_of(SOME))])


@pytest.mark.slow
def test_no_burst_of_two_thousand_breaks_anything() -> None:
    # Not forked: the session of another test may have threads.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
        outcomes = list(processes.map(outcome_of_seed, range(MANY), chunksize=20))
    _require_faultless(outcomes)
    kinds = {(o.plan.selector, o.plan.snapshots, o.plan.sides, o.plan.reset) for _, o in outcomes}
    assert len(kinds) == 3 * 3 * 3 * 3
    assert max(o.epochs.right + o.epochs.undecided for _, o in outcomes) > 40


@pytest.mark.heavy
@pytest.mark.examples
def test_changes_that_do_not_overlap_are_all_known() -> None:
    # The model and the measure: here nothing is to be guessed, and the broker is found to keep its promise.
    for seed in range(share_of(SOME // 2)):
        rng = Random(seed)
        audit = outcome(rng, replace(drawn(rng), sides="exact", reset=""))
        assert audit.faultless, (seed, audit)
        assert (audit.epochs.undecided, audit.unjudged) == (0, 0)


@pytest.mark.heavy
def test_snapshots_after_each_change_leave_little_undecided() -> None:
    undecided = epochs = unjudged = dispatches = 0
    for seed in range(SOME // 2):
        rng = Random(seed)
        audit = outcome(rng, drawn(rng, ["after each change"]))
        undecided += audit.epochs.undecided
        epochs += audit.epochs.right + audit.epochs.undecided + len(audit.epochs.wrong)
        unjudged += audit.unjudged
        dispatches += audit.dispatches
    print(f"\nundecided: {undecided} of {epochs} epochs; not judged: {unjudged} of {dispatches} dispatches")
    assert min(epochs, dispatches) > 10 * SOME
    assert undecided <= UNDECIDED_MAX * epochs
    assert unjudged <= UNJUDGED_MAX * dispatches


# What brings a bug out; without draining hashes STICKY breaks nothing, and a reset ends what is to be seen.
HELD_LONG: Final = {"keys": 4, "patience": 0.95, "reset": "", "selector": "auto_split"}
BROUGHT_OUT_BY: Final[dict[Bug, dict[str, Any]]] = {
    Bug.NO_DRAINING: HELD_LONG,
    Bug.NO_REPLAY_CHECK: HELD_LONG,
    Bug.EARLY_UNBLOCK: {**HELD_LONG, "patience": 0.8, "piecemeal": 1.0},
    Bug.DOUBLE_REGISTRATION: {**HELD_LONG, "keys": 12, "patience": 0.8, "snapshots": "after each change"},
    Bug.WRONG_OWNER: {},
}
# The broker says itself how it stands, and who is sent what others wait for leaves these waiting.
FOLLOWS: Final[dict[Bug, set[str]]] = {
    Bug.NO_DRAINING: {"draining_mismatch", "redelivery_order"},
    Bug.NO_REPLAY_CHECK: set(),
    Bug.EARLY_UNBLOCK: {"draining_mismatch"},
    # What waits for a hash that is counted twice is passed by what a read had in flight (E7); where nothing else waits,
    # nothing is sent to anybody.
    Bug.DOUBLE_REGISTRATION: {"draining_mismatch", "redelivery_order", "stalled"},
    Bug.WRONG_OWNER: {"draining_mismatch", "stalled", "draining_stuck", "gap_delivery"},
}


@pytest.mark.heavy
@pytest.mark.examples
@pytest.mark.parametrize(
    "bug",
    # In the gate without snapshots, schedule by schedule: test_model_dispatcher.py.
    [bug if bug is Bug.NO_DRAINING else pytest.param(bug, marks=pytest.mark.slow) for bug in Bug],
    ids=lambda bug: bug.name.lower(),
)
def test_a_bug_is_found_in_bursts_too(bug: Bug) -> None:
    fault = FAULTS[bug]
    shown: Counter[str] = Counter()
    by_its_rules = 0
    # A hash has to move away, back and away again with nothing sent meanwhile, so it shows in few bursts. The others do
    # not show in each burst either.
    tries = 2 * SOME if bug is Bug.DOUBLE_REGISTRATION else max(share_of(SOME), SOME // 2)
    for seed in range(tries):
        rng = Random(seed)
        plan = replace(drawn(rng, versions=[fault.version]), **BROUGHT_OUT_BY[bug])
        broken = set(outcome(rng, plan, bug).broken)
        shown.update(broken)
        by_its_rules += bool(broken & fault.rules)
    print(f"\n{bug.name.lower()}: found by its rules in {by_its_rules} of {tries} bursts, {dict(shown)}")
    assert by_its_rules > 0
    assert set(shown) <= fault.rules | FOLLOWS[bug]
