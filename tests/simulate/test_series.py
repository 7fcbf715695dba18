"""What happens over time in a simulation: by hand on few entries, and bounded however long it lasts."""

from random import Random

import pytest
from simulated import MS, S, client, joins, workload_of
from test_flaws import HIGH, LOW, setup
from test_policies import hung, under

from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.series import STEPS_MAX, Series, of_partitions, with_equal_steps
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action

LOOK = 100 * MS


def test_a_partition_with_a_hung_consumer_by_hand() -> None:
    """b may have two messages and does nothing with them; five are published for it, and three for a."""
    published = [*((at * MS, LOW) for at in (10, 20, 30, 40, 50)), (60 * MS, HIGH), (70 * MS, HIGH), (250 * MS, HIGH)]
    clients = [client("a", queue=50), client("b", queue=2)]
    workload = workload_of(published, clients, [*joins(2), Action(2 * MS, "hang", 1)], end_us=500 * MS)
    simulation = PartitionSimulation(workload, setup("4.0.8"))
    simulation.run()
    series = simulation.progress.series

    # Steps up to 100, 200, ... 500 ms.
    assert (series.step_us, series.until_us) == (LOOK, 500 * MS)
    assert series.sent == [4, 4, 5, 5, 5]
    assert series.sent_per_s() == [40, 0, 10, 0, 0]
    assert series.replay == [3] * 5
    assert series.backlog == [5] * 5


@pytest.mark.parametrize("policy", ["hot_key_overflow", "count_per_hash"])
def test_what_an_overflow_ledger_has_is_in_the_backlog(policy: PolicyName) -> None:
    """Of the 800 messages for the consumer that hangs one comes before that; the others are acknowledged by nobody."""
    outcome = under(policy, hung()).simulation

    assert outcome.progress.series.backlog[-1] == 799
    assert (len(outcome.policy.holds) > 0) == (policy == "hot_key_overflow")


def looked(series: Series, numbers: list[tuple[int, int, int]]) -> Series:
    for at, (sent, replay, backlog) in enumerate(numbers):
        series.add(at * LOOK, sent, replay, backlog)
    return series


@pytest.mark.parametrize("looks", [1, 2, 300, 301, 302, 303, 601, 602, 2_501, 10_000])
def test_a_series_stays_short_and_loses_no_peak(looks: int) -> None:
    rng = Random(looks)
    numbers = [(at * 3, rng.randrange(1000), rng.randrange(1000)) for at in range(looks)]
    series = looked(Series(LOOK), numbers)
    of_step = series.step_us // LOOK
    # The look at time 0 belongs to the first step.
    parts = [numbers[at and at * of_step + 1 : (at + 1) * of_step + 1] for at in range(len(series.sent))]

    assert len(series.sent) <= STEPS_MAX
    assert len(series.sent) > STEPS_MAX // 2 or series.step_us == LOOK
    assert series.until_us == (looks - 1) * LOOK
    assert sum(map(len, parts)) == looks
    assert series.sent == [part[-1][0] for part in parts]
    assert series.replay == [max(replay for _, replay, _ in part) for part in parts]
    assert series.backlog == [part[-1][2] for part in parts]


def test_longer_steps_are_what_longer_steps_would_have_been() -> None:
    numbers = [(at, at % 7, at % 5) for at in range(200)]
    first = looked(Series(LOOK), numbers)
    kept = Series(LOOK, first.until_us, list(first.sent), list(first.replay), list(first.backlog))
    as_long, other = with_equal_steps([first, Series(4 * LOOK)])

    assert as_long.sent == [*range(4, 200, 4), 199]
    assert as_long.replay[:3] == [4, 6, 5]
    assert as_long.step_us == other.step_us == 4 * LOOK
    assert first == kept


def test_the_rate_of_the_last_step_is_that_of_its_length() -> None:
    assert Series(2 * S, 5 * S, [10, 30, 40], [0] * 3, [0] * 3).sent_per_s() == [5, 10, 10]
    assert Series(2 * S, 0, [0], [0], [0]).sent_per_s() == [0]


def test_partitions_are_added_and_the_fullest_replay_queue_counts() -> None:
    short = Series(S, 3 * S, sent=[1, 2, 3], replay=[5, 6, 7], backlog=[9, 8, 1])
    long = Series(2 * S, 6 * S, sent=[10, 20, 30], replay=[6, 1, 2], backlog=[4, 5, 6])

    # The first one has steps up to 2 and 3 s then, and is over before the last step of the other one.
    together = of_partitions([short, long])
    assert together == Series(2 * S, 6 * S, sent=[12, 23, 33], replay=[6, 7, 2], backlog=[12, 6, 7])
    assert of_partitions([long]) == long
