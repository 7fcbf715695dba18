"""Small workloads that show the known flaws of dispatchers (contract 6.5, 3.9), and the audit that names them.

AutoSplit divides the hashes, because that can be followed by hand: the first consumer owns everything, a newcomer takes
the lower half of the widest interval, the lowest of equally wide ones.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from simulated import MS, Audited, S, audited, client, joins, sent, workload_of

from dispatch_audit.pipeline.simulate.setup import Setup, setup_for
from dispatch_audit.pipeline.simulate.state.broker_settings import Timing
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, ClientPlan, PartitionWorkload

# Keys by quarters of the AutoSplit hashes 0..65535 (contract 1.6).
LOWEST: Final = b"key-1"  # hash 5536
LOW: Final = b"key-2"  # 21772
HIGH: Final = b"order-42"  # 41358
HIGHEST: Final = b"key-0"  # 63679

# Processing takes longer than the simulation.
FOREVER: Final = 3600 * S
AUTO_SPLIT: Final[Mapping[str, object]] = {"subscriptionKeySharedUseConsistentHashing": False}
# Every time is known: a read takes 1 ms, its dispatch another one.
EXACT: Final = Timing(read_us=(MS, MS), dispatch_us=(MS, MS), write_us=0, network_us=100)


def setup(version: str, timing: Timing = EXACT, seed: int = 0, broker: Mapping[str, object] = AUTO_SPLIT) -> Setup:
    return setup_for(version, {**AUTO_SPLIT, **broker}, timing=timing, seed=seed)


def late_joiner(apart_us: int) -> PartitionWorkload:
    """The first consumer holds an entry of a key; another entry is published, and its new owner joins right after."""
    return workload_of(
        [(10 * MS, LOW), (10 * MS, LOW), (20 * MS, LOW)],
        [client("a", service_us=FOREVER), client("b")],
        [Action(0, "join", 0), Action(20 * MS + apart_us, "join", 1)],
    )


def test_f1_a_consumer_that_joins_between_read_and_dispatch_gets_what_was_read() -> None:
    # The read is complete after 1 ms and dispatched after 6 ms.
    slow = Timing(read_us=(MS, MS), dispatch_us=(5 * MS, 5 * MS), write_us=0, network_us=100)
    outcome = audited(late_joiner(2 * MS), setup("3.0.7", slow))

    assert outcome.broken == {"single_holder": 1}
    assert outcome.known_bugs() == {"F1": 1}
    assert audited(late_joiner(2 * MS), setup("4.0.8", slow)).broken == {}


def test_f1_needs_the_join_between_read_and_dispatch() -> None:
    assert audited(late_joiner(500), setup("3.0.7")).broken == {}


def test_a_newcomer_waits_for_a_single_unacknowledged_entry() -> None:
    """The cursor counts from mark-delete to the read position, so one entry that was read counts as two (6.1)."""
    workload = workload_of(
        [(10 * MS, LOW), (60 * MS, LOW)],
        [client("a", service_us=FOREVER), client("b")],
        [Action(0, "join", 0), Action(30 * MS, "join", 1)],
        end_us=S,
    )

    assert sent(workload, setup("3.0.7")) == [(1, 0)]


def waiting_for_permits() -> PartitionWorkload:
    """b may have one message of the key and does nothing; a second one waits in replay when c takes the key over."""
    return workload_of(
        [(10 * MS, LOWEST), (20 * MS, LOWEST), (21 * MS, HIGH)],
        [client("a"), client("b", queue=1, service_us=FOREVER), client("c")],
        [*joins(2), Action(9 * MS, "hang", 1), Action(50 * MS, "join", 2)],
    )


def test_f2_an_entry_without_permits_goes_to_a_newcomer() -> None:
    outcome = audited(waiting_for_permits(), setup("3.0.7"))

    assert outcome.broken == {"single_holder": 1}
    assert outcome.known_bugs() == {"F2": 1}


def test_f2_is_what_pip_282_closes() -> None:
    last_sent = setup_for("3.3.2", AUTO_SPLIT, "last_sent", timing=EXACT)

    assert audited(waiting_for_permits(), last_sent).broken == {}
    assert audited(waiting_for_permits(), setup("4.0.8")).broken == {}


def moved_by_a_leave() -> PartitionWorkload:
    """c712 holds entries of a key; c1248 takes over a ring point of it, and loses it to nobody when it leaves.

    A point of each of the two names has one murmur value. On 3.x the newcomer replaces the incumbent there, and with
    the newcomer the point goes: the hashes before it belong to z from then on.
    """
    key = b"key-1198"
    return workload_of(
        [(10 * MS, key), (10 * MS, key), (60 * MS, key)],
        [client("c712", service_us=FOREVER), client("z"), client("c1248")],
        [*joins(2), Action(20 * MS, "join", 2), Action(40 * MS, "close", 2)],
    )


def test_f3_a_leave_moves_a_hash_to_a_third_consumer() -> None:
    on_a_ring = {"subscriptionKeySharedUseConsistentHashing": True}
    outcome = audited(moved_by_a_leave(), setup("3.0.7", broker=on_a_ring))

    assert outcome.broken == {"single_holder": 1}
    assert outcome.known_bugs() == {"F3": 1}
    assert audited(moved_by_a_leave(), setup("4.0.8", broker=on_a_ring)).broken == {}


def one_unacknowledged() -> PartitionWorkload:
    """a never acknowledges one entry; b joins, and its own keys are published."""
    return workload_of(
        [(10 * MS, HIGH), (10 * MS, HIGHEST), *((at * MS, LOW) for at in range(30, 60))],
        [client("a", service_us=FOREVER), client("b")],
        [Action(0, "join", 0), Action(20 * MS, "join", 1)],
        end_us=5 * S,
    )


def test_f5_one_unacknowledged_entry_blocks_a_recently_joined_consumer() -> None:
    assert not [entry for consumer, entry in sent(one_unacknowledged(), setup("3.0.7")) if consumer == 2]
    assert len([entry for consumer, entry in sent(one_unacknowledged(), setup("4.0.8")) if consumer == 2]) == 30


def undeliverable_head() -> PartitionWorkload:
    """b takes nothing, and its entries fill replay; then c leaves, and what it held waits after them for a."""
    return workload_of(
        [*((at * MS, LOW) for at in range(10, 60)), (100 * MS, HIGH)],
        [client("a"), client("b", queue=1, service_us=FOREVER), client("d"), client("c", service_us=FOREVER)],
        # From the left: d, b, c, a; c owns HIGH until it leaves, and then a.
        [*joins(4), Action(9 * MS, "hang", 1), Action(200 * MS, "crash", 3)],
        end_us=3 * S,
    )


@pytest.mark.parametrize(("version", "served"), [("3.0.7", False), ("4.0.8", True)])
def test_f6_an_undeliverable_head_of_replay_blocks_what_is_behind_it(version: str, served: bool) -> None:
    dispatched = sent(undeliverable_head(), setup(version, broker={"dispatcherMaxReadBatchSize": 10}))

    assert (4, 50) in dispatched
    assert ((1, 50) in dispatched) == served


def test_f6_nothing_limits_how_far_3_x_reads_ahead() -> None:
    limits = {
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": 5,
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": 20,
    }
    outcome = {version: _peak(version, limits) for version in ("3.0.7", "4.0.8")}

    assert outcome["4.0.8"] <= 20
    assert outcome["3.0.7"] > 45


def _peak(version: str, broker: Mapping[str, object]) -> int:
    return audited(undeliverable_head(), setup(version, broker=broker)).simulation.progress.measures.replay_peak


def churn(service_us: int = 20 * MS) -> PartitionWorkload:
    """Consumers come and go while a key's entries wait for permits, so that older entries enter replay late."""
    keys = [LOWEST, LOW, HIGH, HIGHEST]
    clients: list[ClientPlan] = [client(name, queue=5, service_us=service_us) for name in "abcd"]
    leaves: list[Any] = [
        Action(at * MS, kind, (at // 30) % 4) for at in range(60, 1000, 30) for kind in ("close", "join")
    ]
    return workload_of([(10 * MS + at * MS, keys[at % 4]) for at in range(600)], clients, [*joins(4), *leaves])


def test_f10_overlapping_replay_reads_send_entries_twice_to_one_consumer() -> None:
    jitter = Timing(read_us=(100, 5 * MS), dispatch_us=(0, 2 * MS), write_us=0, network_us=5 * MS)
    runs: list[Audited] = [audited(churn(), setup("4.2.4", jitter, seed)) for seed in range(4)]

    assert all(outcome.unexplained == [] for outcome in runs)
    assert sum(outcome.known_bugs()["F10"] for outcome in runs) > 0
    assert sum(len(outcome.simulation.state.overlapped) for outcome in runs) > 0


def test_f10_is_f10_for_what_was_acknowledged_between_the_two_sends() -> None:
    jitter = Timing(read_us=(100, 5 * MS), dispatch_us=(0, 2 * MS), write_us=0, network_us=100)
    runs: list[Audited] = [audited(churn(MS), setup("4.2.4", jitter, seed)) for seed in range(2)]
    named = [row for outcome in runs for row in outcome.tables["violations"] if row["known_bug"] == "F10"]

    assert all(outcome.unexplained == [] for outcome in runs)
    assert ["although it was acknowledged" in row["explanation"] for row in named] == [True] * len(named)
    assert named


def test_f12_what_a_read_had_goes_to_the_next_consumer_and_comes_again() -> None:
    """As a broker of 4.2.4 did it (contract 6.8): the dispatch waits while a leaves and b joins."""
    slow = Timing(read_us=(MS, MS), dispatch_us=(50 * MS, 50 * MS), write_us=0, network_us=100)
    workload = workload_of(
        [(10 * MS, LOW), (11 * MS, LOW), (12 * MS, LOW), (200 * MS, LOW), (203 * MS, LOW)],
        [client("a", service_us=FOREVER), client("b")],
        [Action(0, "join", 0), Action(210 * MS, "close", 0), Action(220 * MS, "join", 1)],
    )
    outcome = audited(workload, setup("4.2.4", slow))

    assert [entry for consumer, entry in sent(workload, setup("4.2.4", slow)) if consumer == 2] == [3, 0, 1, 2, 3, 4]
    assert set(outcome.known_bugs()) - {"#23803)"} == {"F12"}
    assert outcome.unexplained == []


def double_registration() -> PartitionWorkload:
    """A hash with pending entries moves away, comes back untouched, and moves away again (contract 3.9)."""
    return workload_of(
        [(10 * MS, LOW), (11 * MS, LOW), (80 * MS, LOW)],
        [client("a", service_us=500 * MS), client("b"), client("c")],
        [Action(0, "join", 0), Action(20 * MS, "join", 1), Action(40 * MS, "close", 1), Action(60 * MS, "join", 2)],
        end_us=5 * S,
    )


@pytest.mark.parametrize(("version", "stuck"), [("4.0.4", True), ("4.0.8", False)])
def test_double_registration_leaves_a_hash_blocked_for_good(version: str, stuck: bool) -> None:
    outcome = audited(double_registration(), setup(version))

    assert (outcome.simulation.progress.measures.never_sent == 1) == stuck
    assert outcome.unexplained == []
