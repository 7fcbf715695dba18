"""Workloads and setups drawn at random: consumers that come, go, hang and crash while entries are published.

Everything is small and short, so that races are frequent: few keys, small queues and limits, reads that take as long as
the time between two changes.
"""

from dataclasses import replace
from random import Random
from typing import Final

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, profile_for
from dispatch_audit.pipeline.simulate.clients.client import ClientSettings
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.setup import Setup, setup_for
from dispatch_audit.pipeline.simulate.state.broker_settings import Timing
from dispatch_audit.pipeline.simulate.state.switches import Switches, switches_of
from dispatch_audit.pipeline.simulate.workload.partition_workload import (
    Action,
    ActionKind,
    ClientPlan,
    PartitionWorkload,
)

TOPIC: Final = "persistent://public/default/drawn"
_MS: Final = 1000


def drawn_workload(rng: Random, resets: bool = True) -> PartitionWorkload:
    """A workload of a few hundred entries."""
    entries = rng.randint(50, 400)
    keys = rng.randint(1, 24)
    duration_us = rng.choice([20, 200, 1000]) * _MS
    publish_us = sorted(rng.randrange(duration_us) for _ in range(entries))
    clients = [_client(rng, number) for number in range(rng.randint(1, 6))]
    actions = [Action(rng.randrange(5 * _MS), "join", number) for number in range(len(clients))]
    for number in range(len(clients)):
        actions += _life(rng, number, duration_us)
    if resets and rng.random() < 0.3:
        kinds: list[ActionKind] = ["expire", "skip", "clear", "seek", "unload"]
        amount = rng.randint(1, 30)
        chosen = rng.sample(kinds, rng.randint(1, 2))
        actions += [Action(rng.randrange(duration_us), kind, -1, amount) for kind in chosen]
    return PartitionWorkload(
        topic=TOPIC,
        subscription="ks",
        publish_us=publish_us,
        keys=[rng.randrange(keys) for _ in range(entries)],
        key_bytes=[b"key-%d" % number for number in range(keys)],
        clients=clients,
        actions=sorted(actions, key=lambda action: action.at_us),
        end_us=duration_us + 2_000 * _MS,
        messages=[rng.randint(1, 5) for _ in range(entries)] if rng.random() < 0.3 else None,
    )


def drawn_setup(
    rng: Random,
    version: str,
    policy: PolicyName | None = None,
    switches: Switches | None = None,
    classic: bool = False,
) -> Setup:
    """A setup with small limits, often at their edge."""
    slow_us = rng.choice([100, 2 * _MS, 10 * _MS])
    broker: dict[str, object] = {
        "subscriptionKeySharedUseConsistentHashing": rng.random() < 0.5,
        "subscriptionKeySharedConsistentHashingReplicaPoints": rng.choice([1, 10, 100]),
        "dispatcherMaxReadBatchSize": rng.choice([1, 5, 100]),
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": rng.choice([0, 5, 50]),
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": rng.choice([0, 10, 100]),
        "keySharedUnblockingIntervalMs": rng.choice([0, 1, 10]),
        "maxUnackedMessagesPerConsumer": rng.choice([0, 10, 100]),
        "maxUnackedMessagesPerSubscription": rng.choice([0, 40, 1000]),
        **({CLASSIC_SETTING: True} if classic else {}),
    }
    # An acknowledgement takes longer than a read: an entry that overlapping reads send twice (F10) is then still held
    # when it is sent again. `test_flaws` has the other case.
    timing = Timing((10, slow_us), (0, slow_us // 2), write_us=rng.choice([0, 500]), network_us=slow_us)
    return setup_for(
        version,
        broker,
        policy,
        seed=rng.getrandbits(32),
        switches=switches,
        timing=timing,
        stats_us=rng.choice([0, 7 * _MS, 50 * _MS]),
        stall_us=100 * _MS,
    )


def switched(version: str, **switches: object) -> Switches:
    """The switches of a version but for some."""
    return replace(switches_of(profile_for(version, {})), **switches)  # type: ignore[arg-type]  # passed on as given


def _client(rng: Random, number: int) -> ClientPlan:
    settings = ClientSettings(
        receiver_queue=rng.choice([1, 2, 10, 100]),
        ack_group_us=rng.choice([0, 0, 5 * _MS, 50 * _MS]),
        nack_ratio=rng.choice([0.0, 0.0, 0.0, 0.1]),
        nack_delay_us=10 * _MS,
    )
    # Sometimes two clients of one name.
    name = f"c{number // 2}" if rng.random() < 0.2 else f"c{number}"
    return ClientPlan(name, settings, threads=rng.choice([-1, 0, 1, 4]), service_us=rng.choice([100, _MS, 10 * _MS]))


def _life(rng: Random, number: int, duration_us: int) -> list[Action]:
    """Leaves and joins, and perhaps a hang."""
    actions, at_us = [], 5 * _MS
    for _ in range(rng.randint(0, 4)):
        at_us += rng.randrange(duration_us // 2)
        actions.append(Action(at_us, rng.choice(["close", "crash"]), number))
        at_us += rng.choice([0, 100, 5 * _MS, duration_us // 4])
        actions.append(Action(at_us, "join", number))
    if rng.random() < 0.3:
        hung_us = rng.randrange(duration_us)
        actions += [Action(hung_us, "hang", number), Action(hung_us + rng.randrange(duration_us), "resume", number)]
    return actions
