"""Each fault that a simulated broker can have does what its name says, and nothing else.

What an audit makes of them is in `test_random_stalls`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from random_workloads import switched
from simulated import MS, S, client, joins, rows_of, workload_of
from test_flaws import AUTO_SPLIT, FOREVER, HIGH, LOW, setup, undeliverable_head

from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.state.faults import Faults
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload

FAULTY = S


def steady(actions: list[Action] | None = None, keys: tuple[bytes, ...] = (LOW, HIGH)) -> PartitionWorkload:
    """Two consumers, and an entry every 10 ms for 3 s."""
    published = [(10 * MS + at * 10 * MS, keys[at % len(keys)]) for at in range(300)]
    return workload_of(published, [client("a"), client("b")], [*joins(2), *(actions or [])], end_us=6 * S)


def with_faults(broker: Mapping[str, object] = AUTO_SPLIT, /, **faults: Any) -> Setup:
    return replace(setup("4.2.4", broker=broker), faults=Faults(from_us=FAULTY, **faults))


def sent_ms(workload: PartitionWorkload, setup: Setup) -> list[tuple[int, int, int]]:
    """Milliseconds, consumer and entry of each dispatch."""
    return [
        (row["ts_us"] // MS, row["consumer"], row["entry_id"])
        for row in rows_of(workload, setup)
        if row["event"] == "dispatch" and row["phase"] == "start"
    ]


def test_a_stuck_normal_read_ends_everything() -> None:
    found = sent_ms(steady(), with_faults(stuck_read="normal"))

    assert 980 <= max(at for at, _, _ in found) <= 1020


def test_a_stuck_read_goes_on_after_its_time() -> None:
    found = [at for at, _, _ in sent_ms(steady(), with_faults(stuck_read="normal", stuck_for_us=1500 * MS))]

    assert not [at for at in found if 1020 < at < 2500]
    assert len(found) == 300


def test_an_unload_heals_a_stuck_read_and_leaving_does_not() -> None:
    leaves = [Action(1500 * MS, "close", 0), Action(1500 * MS, "close", 1), Action(1600 * MS, "join", 0)]
    unloaded = sent_ms(steady([Action(2000 * MS, "unload")]), with_faults(stuck_read="normal"))
    left = sent_ms(steady(leaves), with_faults(stuck_read="normal"))

    assert len({entry for _, _, entry in unloaded}) == 300
    assert max(at for at, _, _ in left) <= 1020


def test_a_stuck_replay_read_ends_everything_too() -> None:
    # What a holds when it leaves is to be read from replay.
    leave = [Action(1005 * MS, "hang", 0), Action(1105 * MS, "crash", 0)]
    found = sent_ms(steady(leave), with_faults(stuck_read="replay"))

    assert 1100 <= max(at for at, _, _ in found) <= 1115


def test_a_starved_key_is_sent_to_nobody() -> None:
    found = sent_ms(steady(), with_faults(starved_key=0))
    # Keys are numbered in their order: HIGH is published third, fifth and so on from 1.
    starved = [at for at, _, entry in found if entry % 2 == 0]

    assert max(starved) <= 1020
    assert max(at for at, _, entry in found if entry % 2) > 2900


def test_a_misrouted_key_goes_to_another_consumer() -> None:
    found = sent_ms(steady(), with_faults(misrouted_key=0))
    before = {consumer for at, consumer, entry in found if not entry % 2 and at < 1000}
    after = {consumer for at, consumer, entry in found if not entry % 2 and at > 1020}

    assert len(before) == len(after) == 1
    assert before != after
    assert {consumer for _, consumer, entry in found if entry % 2} == after


@pytest.mark.parametrize(
    ("limit", "fault", "most"),
    [
        ("maxUnackedMessagesPerConsumer", "over_consumer_limit", 25),
        ("maxUnackedMessagesPerSubscription", "over_subscription_limit", 25),
    ],
)
def test_a_limit_is_overshot(limit: str, fault: str, most: int) -> None:
    published = [(10 * MS + at * 10 * MS, HIGH) for at in range(300)]
    workload = workload_of(published, [client("a", service_us=FOREVER)], joins(1), 6 * S)

    assert len(sent_ms(workload, with_faults({**AUTO_SPLIT, limit: 10}))) == 10
    assert len(sent_ms(workload, with_faults({**AUTO_SPLIT, limit: 10}, **{fault: 15}))) == most


def test_without_a_read_after_writes_only_something_else_goes_on() -> None:
    """A burst larger than a read: the rest waits for a flow."""
    published = [(10 * MS, HIGH)] * 30
    workload = workload_of(published, [client("a", queue=1000, service_us=FOREVER)], joins(1), 6 * S)
    batch = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 10}
    broken = replace(setup("4.2.4", broker=batch), switches=switched("4.2.4", reads_after_writes=False))

    assert len(sent_ms(workload, setup("4.2.4", broker=batch))) == 30
    assert len(sent_ms(workload, broken)) == 10


def at_the_tail(out_of_order: bool) -> PartitionWorkload:
    """b keeps one entry, and four more of it wait in replay; what a gives back waits after them."""
    published = [*((10 * MS, LOW) for _ in range(5)), (11 * MS, HIGH)]
    clients = [client("a", nack_ratio=1.0, nack_delay_us=100 * MS), client("b", queue=1, service_us=FOREVER)]
    workload = workload_of(published, clients, [*joins(2), Action(9 * MS, "hang", 1)], 3 * S)
    return replace(workload, allow_out_of_order=out_of_order)


def test_out_of_order_entries_wait_behind_a_consumer_without_permits() -> None:
    """#26268: replay reads take what nobody has permits for, and the read that looks ahead waits at the tail."""
    one_at_a_time = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 1}
    healthy = setup("4.2.5", broker=one_at_a_time)
    broken = replace(healthy, switches=switched("4.2.5", filtered_out_of_order=False))
    again = {
        name: sum(entry == 5 for _, _, entry in sent_ms(at_the_tail(True), under))
        for name, under in {"healthy": healthy, "broken": broken}.items()
    }

    assert again["healthy"] > 10
    assert again["broken"] <= 2


def test_recently_joined_consumers_out_of_order_block_each_other() -> None:
    """F8: the newest is asked first, and waits for entries that an older one cannot be sent."""
    published = [(10 * MS + at * 10 * MS, (LOW, HIGH)[at % 2]) for at in range(300)]
    clients = [client(name, service_us=200 * MS) for name in "abc"]
    workload = workload_of(published, clients, [*joins(1), Action(S, "join", 1), Action(1100 * MS, "join", 2)], 9 * S)
    blocked = {}
    for in_order in (True, False):
        under = replace(setup("3.0.7"), switches=switched("3.0.7", joins_in_order=in_order))
        simulation = PartitionSimulation(workload, under)
        simulation.run()
        blocked[in_order] = simulation.progress.measures.never_sent

    assert blocked == {True: 0, False: pytest.approx(100, abs=80)}


def test_a_slow_consumer_fills_replay_without_a_limit_on_3_x() -> None:
    """F6 is no switch: it comes out of the dispatcher of recently joined consumers."""
    simulation = PartitionSimulation(undeliverable_head(), setup("3.0.7"))
    simulation.run()

    assert simulation.progress.measures.replay_peak > 45
