"""PIP-474's stall in small, and what each proposal makes of it."""

from dataclasses import replace
from typing import Final

import pytest
from simulated import MS, Audited, S, audited, client, joins, sent, workload_of
from test_flaws import AUTO_SPLIT, EXACT, FOREVER, HIGH, HIGHEST, LOW, LOWEST, setup

from dispatch_audit.pipeline.simulate.lower_bound import makespan_bound_us
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload

PER_CONSUMER: Final = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
PER_SUBSCRIPTION: Final = "keySharedLookAheadMsgInReplayThresholdPerSubscription"


def hung(resumes_at_us: int | None = None, leaves_at_us: int | None = None) -> PartitionWorkload:
    """Two consumers, of which b hangs; 100 messages a second for each."""
    published = [(10 * MS + at * 5 * MS, LOW if at % 2 else HIGH) for at in range(1600)]
    actions = [*joins(2), Action(20 * MS, "hang", 1)]
    if resumes_at_us is not None:
        actions.append(Action(resumes_at_us, "resume", 1))
    if leaves_at_us is not None:
        actions.append(Action(leaves_at_us, "crash", 1))
    return workload_of(published, [client("a", queue=50), client("b", queue=50)], actions, end_us=10 * S)


def under(policy: PolicyName, workload: PartitionWorkload, per_subscription: int = 200) -> Audited:
    broker = {**AUTO_SPLIT, PER_CONSUMER: 0, PER_SUBSCRIPTION: per_subscription}
    options = {"keySharedHotKeyReleaseCooldownMs": 500}
    return audited(workload, setup_for("4.0.8", broker, policy, timing=EXACT, options=options, stats_us=S // 10))


def test_a_hung_consumer_stalls_all_others_at_the_look_ahead_limit() -> None:
    measures = under("draining", hung()).simulation.progress.measures

    # b takes 50 messages and then waits: 200 more are in replay after 2.5 s, and nothing is read any more.
    assert measures.replay_peak == 200
    assert measures.stalled_at_us == pytest.approx(2.5 * S, rel=0.05)
    assert measures.no_progress_us > 4 * S


@pytest.mark.parametrize("policy", ["hot_key_overflow", "count_per_hash"])
def test_a_proposal_removes_the_stall(policy: PolicyName) -> None:
    outcome = under(policy, hung())

    assert outcome.simulation.progress.measures.no_progress_us == 0
    assert outcome.unexplained == []
    # All of a: the others are for b.
    assert sum(consumer == 1 for consumer, _ in _sent(outcome)) == 800


def test_a_raised_limit_removes_the_stall() -> None:
    assert under("draining", hung(), 1000).simulation.progress.measures.no_progress_us == 0


def test_the_overflow_ledger_lets_mark_delete_move_on() -> None:
    by_policy = {policy: under(policy, hung()) for policy in ("hot_key_overflow", "count_per_hash")}
    counters = by_policy["hot_key_overflow"].simulation.state.counters

    assert counters.overflowed > 400
    # What b holds itself is in its way all the same.
    assert by_policy["hot_key_overflow"].simulation.cursor.mark_delete < 100
    ranges = {policy: outcome.simulation.cursor.ranges for policy, outcome in by_policy.items()}
    assert ranges["hot_key_overflow"] < ranges["count_per_hash"] / 2


@pytest.mark.parametrize("workload", [hung(resumes_at_us=6 * S), hung(leaves_at_us=6 * S)], ids=["resumes", "leaves"])
def test_what_overflowed_is_sent_in_order_when_the_consumer_is_back_or_gone(workload: PartitionWorkload) -> None:
    outcome = under("hot_key_overflow", workload)

    assert outcome.unexplained == []
    assert outcome.simulation.state.counters.overflow_read > 0
    assert outcome.simulation.cursor.mark_delete + 1 == len(workload)
    assert not outcome.simulation.policy.unfinished()


def _sent(outcome: Audited) -> list[tuple[int, int]]:
    return sent(outcome.simulation.workload, outcome.simulation.setup)


@pytest.mark.parametrize("version", ["3.0.7", "4.0.8"])
def test_an_unblocked_consumer_is_served_although_no_permits_came_meanwhile(version: str) -> None:
    """Of 30 entries it may hold 10; its queue is so large that it grants permits only once."""
    workload = workload_of([(10 * MS, LOW)] * 30, [client("a", queue=1000)], joins(1))
    outcome = audited(workload, setup(version, broker={"maxUnackedMessagesPerConsumer": 10}))

    assert outcome.simulation.progress.measures.never_sent == 0
    assert outcome.broken == {}


def handover() -> PartitionWorkload:
    """a holds two entries of a key for 300 ms; b takes the key over, and one more is published."""
    return workload_of(
        [(10 * MS, LOW), (11 * MS, LOW), (60 * MS, LOW), (61 * MS, HIGH)],
        [client("a", service_us=300 * MS), client("b")],
        [Action(0, "join", 0), Action(50 * MS, "join", 1)],
    )


def test_s1_a_hash_is_handed_over_when_its_last_entry_is_acknowledged() -> None:
    """Contract 12, S1."""
    outcome = audited(handover(), setup("4.0.8"))

    assert _sent(outcome) == [(1, 0), (1, 1), (1, 3), (2, 2)]
    assert outcome.broken == {}
    (episode,) = outcome.tables["draining"]
    assert (episode["holder"], episode["entries_at_start"]) == (1, 2)
    assert outcome.simulation.state.first_sent_us[2] == pytest.approx(11 * MS + 300 * MS + 12 * MS, abs=6 * MS)


def test_s5_what_a_leaver_held_goes_to_the_new_owner_in_order() -> None:
    """Contract 12, S5."""
    workload = workload_of(
        [(10 * MS, LOW), (11 * MS, LOW), (12 * MS, LOW)],
        [client("a"), client("b", queue=2, service_us=FOREVER)],
        [*joins(2), Action(9 * MS, "hang", 1), Action(60 * MS, "crash", 1)],
    )
    outcome = audited(workload, setup("4.0.8"))

    assert _sent(outcome) == [(2, 0), (2, 1), (1, 0), (1, 1), (1, 2)]
    assert outcome.broken == {}


def test_s6_after_the_last_leave_everything_unacknowledged_is_read_again() -> None:
    """Contract 12, S6."""
    workload = workload_of(
        [(10 * MS, LOW), (11 * MS, HIGH)],
        [client("a", service_us=FOREVER), client("b")],
        [Action(0, "join", 0), Action(50 * MS, "crash", 0), Action(100 * MS, "join", 1)],
    )
    outcome = audited(workload, setup("4.0.8"))

    assert _sent(outcome) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert outcome.simulation.state.replay.size_peak == 0


def test_s7_an_entry_without_permits_waits_and_another_key_passes_it() -> None:
    """Contract 12, S7."""
    workload = workload_of(
        [(10 * MS, LOW), (10 * MS, LOW), (10 * MS, LOW), (10 * MS, HIGH)],
        [client("a"), client("b", queue=1, service_us=20 * MS, threads=1)],
        joins(2),
    )
    outcome = audited(workload, setup("4.0.8"))

    assert _sent(outcome)[:2] in ([(2, 0), (1, 3)], [(1, 3), (2, 0)])
    assert [entry for consumer, entry in _sent(outcome) if consumer == 2] == [0, 1, 2]


def test_a_nack_is_sent_again_with_a_higher_count() -> None:
    workload = workload_of(
        [(10 * MS, LOW)], [client("a", nack_ratio=1.0, nack_delay_us=100 * MS)], [Action(0, "join", 0)], end_us=S
    )
    outcome = audited(workload, setup("4.0.8"))

    assert len(_sent(outcome)) == 10
    assert outcome.findings["redelivery_count", "violation"] == 0


def test_a_mark_delete_that_cannot_persist_its_holes_sends_again_after_an_unload() -> None:
    keys = [LOWEST, HIGHEST]
    workload = workload_of(
        [(10 * MS + at * MS, keys[at % 2]) for at in range(60)],
        [client("a"), client("b", service_us=FOREVER)],
        [*joins(2), Action(200 * MS, "unload", -1)],
        end_us=2 * S,
    )
    kept, lost = (
        audited(workload, setup("4.0.8", broker={"managedLedgerMaxUnackedRangesToPersist": ranges}))
        for ranges in (10_000, 10)
    )

    assert kept.simulation.progress.measures.duplicates == 30
    assert lost.simulation.progress.measures.duplicates == 50


def test_the_lower_bound_is_the_slower_of_a_key_and_of_all_threads() -> None:
    serial = workload_of([(0, LOW)] * 10, [client("a", service_us=10 * MS, threads=1)], [])
    at_once = workload_of([(0, LOW)] * 10, [client("a", service_us=10 * MS, threads=-1)], [])
    threads = workload_of([(0, b"k%d" % at) for at in range(10)], [client("a", service_us=10 * MS, threads=2)], [])

    assert makespan_bound_us(serial) == 100 * MS
    assert makespan_bound_us(at_once) == 10 * MS
    assert makespan_bound_us(threads) == 50 * MS


@pytest.mark.parametrize("limit", ["maxUnackedMessagesPerSubscription", "maxUnackedMessagesPerConsumer"])
def test_a_clear_ends_a_limit_of_unacknowledged_messages(limit: str) -> None:
    """What it drops is unacknowledged no longer, from 4.0.11 and 4.2.2 on (contract 3.11, 4.14)."""
    published = [(10 * MS + at * MS, HIGH) for at in range(10)] + [(2 * S + at * MS, HIGH) for at in range(5)]
    workload = workload_of(published, [client("a", service_us=FOREVER)], [*joins(1), Action(S, "clear")], 3 * S)
    limited = setup("4.2.4", broker={limit: 5, "dispatcherMaxReadBatchSize": 1})

    assert [entry for _, entry in sent(workload, limited)] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


@pytest.mark.parametrize(("version", "reads"), [("3.0.7", 1), ("4.0.8", 0), ("4.2.4", 1)])
def test_a_redeliver_command_unblocks_a_consumer_that_holds_nothing_of_it(version: str, reads: int) -> None:
    """Contract 4.14 and 5.6: on 4.0 it asks for a read only if permits were withheld."""
    simulation = PartitionSimulation(workload_of([], [client("a", queue=5)], joins(1)), setup(version))
    simulation.run()
    (consumer,) = simulation.state.consumers
    consumer.blocked = True
    planned = len(simulation.agenda.heap)

    simulation.settlements.redeliver(consumer, [7])

    assert not consumer.blocked
    assert len(simulation.agenda.heap) - planned == reads


@pytest.mark.parametrize(("out_of_order", "found"), [(False, 0), (True, 1)])
def test_with_out_of_order_delivery_no_consumer_is_recently_joined(out_of_order: bool, found: int) -> None:
    published = [(10 * MS, LOW), (60 * MS, LOW)]
    clients = [client("a", service_us=FOREVER), client("b", service_us=FOREVER)]
    workload = workload_of(published, clients, [Action(0, "join", 0), Action(30 * MS, "join", 1)], S)
    workload = replace(workload, allow_out_of_order=out_of_order)

    assert sent(workload, setup("3.3.2")).count((2, 1)) == found
