"""Schedules drawn at random of what real clusters do: policies that change, rate limits, delays, unloads, and waits.

Everything lasts for seconds, because a stall does (`blocking.stall_threshold_ms`). A schedule is drawn from its seed
and its kind: `none`, or the name of a fault that the broker has (`FAULTS`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from random_workloads import TOPIC, switched

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING
from dispatch_audit.pipeline.simulate.clients.client import ClientSettings
from dispatch_audit.pipeline.simulate.output.settings_rows import RecordedSettings
from dispatch_audit.pipeline.simulate.setup import Setup, setup_for
from dispatch_audit.pipeline.simulate.state.broker_settings import Timing
from dispatch_audit.pipeline.simulate.state.faults import Faults
from dispatch_audit.pipeline.simulate.workload.partition_workload import (
    Action,
    ActionKind,
    ClientPlan,
    PartitionWorkload,
)

NONE: Final = "none"
MS: Final = 1000
S: Final = 1_000_000

PER_CONSUMER: Final = "maxUnackedMessagesPerConsumer"
PER_SUBSCRIPTION: Final = "maxUnackedMessagesPerSubscription"
LOOK_AHEAD_PER_CONSUMER: Final = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
LOOK_AHEAD: Final = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
RATE: Final = "dispatchThrottlingRate"
DELAYED_DELIVERY: Final = "delayedDeliveryEnabled"

# A version, and whether its broker uses the classic dispatcher.
Broker = tuple[str, bool]
DRAINING: Final[tuple[Broker, ...]] = (("4.0.8", False), ("4.2.4", False), ("5.0.1", False))
RECENTLY_JOINED: Final[tuple[Broker, ...]] = (("3.0.7", False), ("3.3.2", False), ("4.2.4", True))
_FIXED: Final[tuple[Broker, ...]] = (("4.2.4", False), ("5.0.1", False))


@dataclass(frozen=True)
class Schedule:
    """A schedule, and how it is recorded.

    Attributes:
        workload: what is published and done.
        setup: of the broker.
        as_recorded: whether rows move as those of a recorder do.
    """

    workload: PartitionWorkload
    setup: Setup
    as_recorded: bool


@dataclass(frozen=True)
class Fault:
    """A fault that a broker can have.

    Attributes:
        brokers: those that it is drawn for.
        switches: of the dispatcher.
        faults: draws what it has from a moment on.
        rules: one of which its finding must have.
        follow: rules that it breaks besides.
        shapes: what a schedule needs so that the fault shows.
    """

    brokers: tuple[Broker, ...]
    rules: tuple[str, ...]
    switches: Mapping[str, object] | None = None
    faults: Callable[[Random, int], Faults] = lambda _, __: Faults()
    shapes: Mapping[str, Any] | None = None
    follow: tuple[str, ...] = ()


_STALLS: Final = ("stalled", "draining_stuck")

FAULTS: Final[Mapping[str, Fault]] = {
    "stuck_read": Fault(
        DRAINING + RECENTLY_JOINED,
        _STALLS,
        faults=lambda rng, from_us: Faults(from_us, rng.choice(["normal", "normal", "replay"])),
    ),
    "stuck_for_a_while": Fault(
        DRAINING + RECENTLY_JOINED,
        _STALLS,
        faults=lambda rng, from_us: Faults(
            from_us, rng.choice(["normal", "normal", "replay"]), rng.randint(2500, 4000) * MS
        ),
    ),
    "reads_ahead_at_the_tail": Fault(
        _FIXED, _STALLS, {"look_ahead_needs_backlog": False}, shapes={"tail": True, "slow": True}
    ),
    "out_of_order_unfiltered": Fault(
        _FIXED, _STALLS, {"filtered_out_of_order": False}, shapes={"tail": True, "slow": True, "out_of_order": True}
    ),
    "no_read_after_writes": Fault(DRAINING, _STALLS, {"reads_after_writes": False}, shapes={"bursts": True}),
    "joins_out_of_order": Fault(RECENTLY_JOINED, _STALLS, {"joins_in_order": False}, shapes={"joins": True}),
    "unlimited_replay": Fault(RECENTLY_JOINED, _STALLS, shapes={"slow": True, "small_reads": True}),
    "starved_key": Fault(
        DRAINING + RECENTLY_JOINED,
        # A hash that belongs to nobody does not drain when it moves. Snapshots show that, and nothing else does where
        # its former holder still holds entries of it.
        (*_STALLS, "draining_mismatch"),
        faults=lambda rng, from_us: Faults(from_us, starved_key=rng.randrange(2)),
    ),
    "misrouted_key": Fault(
        DRAINING,
        ("ownership",),
        faults=lambda rng, from_us: Faults(from_us, misrouted_key=rng.randrange(2)),
        shapes={"stable": True},
        # Overlapping reads are F10 only if both send to the owner, and the fault lets both send to another consumer.
        follow=("single_holder", "first_delivery_order", "redelivery_order", "replay_overtaken", "early_duplicate"),
    ),
    "over_consumer_limit": Fault(
        DRAINING + RECENTLY_JOINED,
        # A broker with a higher limit than rows claim looks the same.
        ("unacked_limit", "settings_mismatch"),
        faults=lambda rng, _: Faults(over_consumer_limit=rng.randint(15, 60)),
        shapes={"single_messages": True, PER_CONSUMER: True},
    ),
    "over_subscription_limit": Fault(
        DRAINING + RECENTLY_JOINED,
        # A broker with a higher limit than rows claim looks the same.
        ("unacked_limit", "settings_mismatch"),
        faults=lambda rng, _: Faults(over_subscription_limit=rng.randint(60, 100)),
        shapes={"single_messages": True, PER_SUBSCRIPTION: True},
    ),
}
"""The faults by name."""


def drawn_schedule(seed: int, kind: str = NONE) -> Schedule:
    """The schedule of a seed; `kind` is `NONE` or one of `FAULTS`."""
    rng = Random(f"{seed}/{kind}")
    fault = FAULTS.get(kind)
    version, classic = rng.choice(fault.brokers if fault else DRAINING + RECENTLY_JOINED)
    shapes = (fault.shapes if fault else None) or {}
    workload = _workload(rng, shapes)
    setup = _setup(rng, version, classic, shapes)
    if fault is not None:
        from_us = rng.randint(500, 2500) * MS
        setup = replace(
            setup,
            faults=fault.faults(rng, from_us),
            switches=replace(setup.switches, **(fault.switches or {})),  # type: ignore[arg-type]  # passed on as given
        )
    if setup.recorded_settings == "late":
        workload = replace(workload, actions=_seen_by_looks(workload.actions, setup.settings_us))
    elif setup.recorded_settings == "not":
        workload = replace(workload, actions=[action for action in workload.actions if not _hides_look_ahead(action)])
    as_recorded = rng.random() < 0.5
    if shapes.get("tail"):
        workload = _delays_one_key(rng, workload, setup.settings.tick_us)
    return Schedule(workload, setup, as_recorded)


def _delays_one_key(rng: Random, workload: PartitionWorkload, tick_us: int) -> PartitionWorkload:
    """Most of what is delayed has one key, which may be one of the slow client, and nothing comes for long after it.

    The slow client hangs only when that becomes due: what it has no permits for before is not kept until then, but goes
    into replay (contract 4.10). What is delayed counts as due one tick early.
    """
    due_us = [due if due < 0 else due + tick_us for due in workload.deliver_at_us or []]
    hot, share = rng.randrange(len(workload.key_bytes)), rng.choice([0.7, 0.95])
    keys = [hot if due >= 0 and rng.random() < share else key for key, due in zip(workload.keys, due_us, strict=True)]
    actions = [action for action in workload.actions if (action.kind, action.client) != ("hang", 0)]
    actions.append(Action(min(due for due in due_us if due >= 0) - tick_us, "hang", 0))
    return replace(
        workload,
        keys=keys,
        deliver_at_us=due_us,
        actions=sorted(actions, key=lambda action: action.at_us),
        end_us=max(workload.end_us, max(due_us) + 4 * S),
    )


def _hides_look_ahead(action: Action) -> bool:
    """Whether an action puts a low look-ahead limit in force.

    A stall of a broker that reads nothing more has a few dozen entries in replay, like one at a low limit. The audit
    takes it for granted that no real one is below a hundred (docs/BLOCKING.md), where no row says it.
    """
    settings = action.settings or {}
    limits = [settings[name] for name in (LOOK_AHEAD, LOOK_AHEAD_PER_CONSUMER) if name in settings]
    return any(limit is not None and limit < 100 for limit in limits)


def _seen_by_looks(actions: Sequence[Action], every_us: int) -> list[Action]:
    """The actions without changes of a setting that the next one hides from the recorder.

    A row says up to where the former value was certainly in force (TRACE_FORMAT, `seq_begin`). A value that comes and
    goes between two looks would make it wrong, and no audit could know.
    """
    kept: list[Action] = []
    changed_us: dict[str, int] = {}
    for action in actions:
        names = action.settings or {}
        if any(action.at_us - changed_us.get(name, -every_us) < every_us for name in names):
            continue
        changed_us.update(dict.fromkeys(names, action.at_us))
        kept.append(action)
    return kept


def _workload(rng: Random, shapes: Mapping[str, Any]) -> PartitionWorkload:
    many = shapes.get("slow") or shapes.get(PER_SUBSCRIPTION)
    entries, keys = rng.randint(150 if many else 60, 300), rng.randint(2, 24)
    if shapes.get("small_reads"):
        # Enough for replay to grow for one consumer.
        entries *= 3
    duration_us = rng.choice([2, 4, 6]) * S
    clients = [_client(rng, number, shapes) for number in range(rng.randint(2, 3 if shapes.get("tail") else 5))]
    actions = [Action(rng.randrange(5 * MS), "join", number) for number in range(len(clients))]
    if not shapes.get("stable"):
        for number in range(len(clients)):
            actions += _life(rng, number, duration_us, bool(shapes.get("joins")))
        actions += _resets(rng, len(clients), duration_us)
    if shapes.get("slow") or rng.random() < 0.2:
        hung = 0 if shapes.get("tail") else rng.randrange(len(clients))
        actions.append(Action(rng.randint(10, 500) * MS, "hang", hung))
    actions += _policies(rng, duration_us)
    published = _publish_us(rng, entries, duration_us, bool(shapes.get("bursts")))
    batches = not shapes.get("single_messages") and rng.random() < 0.3
    return PartitionWorkload(
        topic=TOPIC,
        subscription="ks",
        publish_us=published,
        keys=[rng.randrange(keys) for _ in range(entries)],
        key_bytes=[b"key-%02d" % number for number in range(keys)],
        clients=clients,
        actions=sorted(actions, key=lambda action: action.at_us),
        end_us=duration_us + rng.choice([1500, 3000, 5000]) * MS,
        start_us=1_767_225_600_000_000,
        messages=[rng.randint(1, 5) for _ in range(entries)] if batches else None,
        sizes=[rng.choice([100, 1000, 10_000]) for _ in range(entries)],
        deliver_at_us=_delays(rng, published, bool(shapes.get("tail"))),
        allow_out_of_order=bool(shapes.get("out_of_order")) or (not shapes and rng.random() < 0.1),
    )


def _publish_us(rng: Random, entries: int, duration_us: int, bursts: bool) -> list[int]:
    if bursts or rng.random() < 0.4:
        # Few moments with many entries each, and silence between them.
        moments = [rng.randrange(10 * MS, duration_us) for _ in range(rng.randint(2, 8))]
        return sorted(rng.choice(moments) + rng.randrange(2 * MS) for _ in range(entries))
    return sorted(rng.randrange(10 * MS, duration_us) for _ in range(entries))


def _delays(rng: Random, published: list[int], needed: bool) -> list[int] | None:
    if needed:
        # Many are due at one moment, when nothing else goes on any more.
        due_ms = max(published) // MS + rng.randint(0, 300)
        return [due_ms * MS if rng.random() < 0.5 else -1 for _ in published]
    share = rng.choice([0.0, 0.0, 0.1, 0.5])
    if not share:
        return None
    # Due at whole milliseconds, as a producer asks for it.
    return [(at // MS + rng.randint(0, 3000)) * MS if rng.random() < share else -1 for at in published]


def _client(rng: Random, number: int, shapes: Mapping[str, Any]) -> ClientPlan:
    nacks, queues, times_ms = rng.random() < 0.25, [1, 2, 10, 100, 1000], [0.1, 1, 10, 100, 1500]
    if shapes.get("tail") and not number:
        queues = [1, 2]
    elif shapes.get(PER_SUBSCRIPTION):
        # Together they may hold more than the subscription may.
        queues, times_ms = [100, 1000], [10, 100, 1500]
    settings = ClientSettings(
        receiver_queue=rng.choice(queues),
        ack_group_us=rng.choice([0, 0, 50 * MS, 100 * MS]),
        nack_ratio=rng.choice([0.05, 0.3]) if nacks else 0.0,
        nack_delay_us=rng.choice([10, 500]) * MS,
    )
    service_us = int(rng.choice(times_ms) * MS)
    return ClientPlan(f"c{number}", settings, threads=rng.choice([-1, 0, 1, 4]), service_us=service_us)


def _life(rng: Random, number: int, duration_us: int, joins: bool) -> list[Action]:
    actions, at_us = [], 100 * MS
    for _ in range(rng.randint(1, 4) if joins else rng.choice([0, 0, 1, 3])):
        at_us += rng.randrange(duration_us // 2)
        actions.append(Action(at_us, rng.choice(["close", "crash"]), number))
        at_us += rng.choice([0, 5 * MS, 300 * MS, 1500 * MS])
        actions.append(Action(at_us, "join", number))
    if rng.random() < 0.2:
        hung_us = rng.randrange(duration_us)
        actions += [Action(hung_us, "hang", number), Action(hung_us + rng.randrange(3 * S), "resume", number)]
    return actions


def _resets(rng: Random, clients: int, duration_us: int) -> list[Action]:
    """Unloads, seeks and the like, and moments at which everybody leaves."""
    actions: list[Action] = []
    if rng.random() < 0.4:
        kinds: list[ActionKind] = ["unload", "unload", "seek", "expire", "skip", "clear"]
        chosen = rng.sample(kinds, rng.randint(1, 2))
        actions += [Action(rng.randrange(duration_us), kind, -1, rng.randint(1, 30)) for kind in chosen]
    if rng.random() < 0.25:
        gone_us = rng.randrange(duration_us)
        away_us = rng.choice([1, 100, 1500]) * MS
        for number in range(clients):
            actions.append(Action(gone_us, rng.choice(["close", "crash"]), number))
            actions.append(Action(gone_us + away_us + rng.randrange(5 * MS), "join", number))
    return actions


def _policies(rng: Random, duration_us: int) -> list[Action]:
    if rng.random() < 0.4:
        return []
    choices: list[Mapping[str, list[int | bool | None]]] = [
        {PER_CONSUMER: [None, 0, 5, 20, 200]},
        {PER_SUBSCRIPTION: [None, 0, 20, 60, 1000]},
        {LOOK_AHEAD: [None, 0, 10, 100]},
        {LOOK_AHEAD_PER_CONSUMER: [None, 0, 5, 50]},
        {f"{RATE}PerSubscriptionInMsg": [None, -1, 5, 30, 300]},
        {f"{RATE}PerTopicInMsg": [None, 0, 10, 100]},
        {f"{RATE}PerTopicInByte": [None, 20_000, 200_000]},
        {DELAYED_DELIVERY: [None, True, False]},
    ]
    actions = []
    for _ in range(rng.randint(1, 5)):
        changed = {name: rng.choice(values) for name, values in rng.choice(choices).items()}
        actions.append(Action(rng.randrange(duration_us), "settings", settings=changed))
    return actions


def _setup(rng: Random, version: str, classic: bool, shapes: Mapping[str, Any]) -> Setup:
    slow_us = rng.choice([100, 2 * MS, 10 * MS])
    # With large reads, or a low limit of consumers, nothing goes far beyond the limit of the subscription.
    small_reads = shapes.get("tail") or shapes.get("small_reads") or shapes.get(PER_SUBSCRIPTION)
    per_consumer = [0, 100] if shapes.get(PER_SUBSCRIPTION) else [0, 10, 100]
    limits = {
        PER_CONSUMER: [10, 20] if shapes.get(PER_CONSUMER) else per_consumer,
        PER_SUBSCRIPTION: [20, 40] if shapes.get(PER_SUBSCRIPTION) else [0, 40, 1000],
        LOOK_AHEAD_PER_CONSUMER: [0, 5, 50, 2000],
        LOOK_AHEAD: [0, 10, 100, 20_000],
        "keySharedUnblockingIntervalMs": [0, 1, 10],
        "dispatcherMaxReadBatchSize": [1, 5] if small_reads else [1, 5, 100],
        "delayedDeliveryTickTimeMillis": [10, 100, 1000],
    }
    broker: dict[str, object] = {name: rng.choice(values) for name, values in limits.items()}
    broker["subscriptionKeySharedUseConsistentHashing"] = rng.random() < 0.5
    if classic:
        broker[CLASSIC_SETTING] = True
    if rng.random() < 0.3:
        level = rng.choice(["", "PerTopic", "PerSubscription"])
        broker |= rng.choice([{f"{RATE}{level}InMsg": rng.choice([5, 40])}, {f"{RATE}{level}InByte": 30_000}])
    recorded: RecordedSettings = rng.choice(["exactly", "late", "late", "not"])
    return setup_for(
        version,
        broker,
        seed=rng.getrandbits(32),
        switches=switched(version) if not classic else None,
        timing=Timing((10, slow_us), (0, slow_us // 2), write_us=rng.choice([0, 500]), network_us=slow_us),
        stats_us=rng.choice([0, 50 * MS, 500 * MS]),
        recorded_settings=recorded,
        settings_us=rng.choice([20, 300, 2000]) * MS,
    )
