"""Schedules in which many consumers come and go at once, for the model dispatcher: drawn, and run.

Whatever is drawn comes from one `random.Random`: that of a seed, or one of Hypothesis, which can shrink it.

In a burst up to 30 joins and leaves follow each other within milliseconds. Each has its moment somewhere between its
two rows, of which the second comes late and in any order with the others; or it has one row, not further from its
moment than the recorder's skew. A seek or an unload closes all consumers, each recorded a little before or after, and
their clients come back at once, in another order. Traffic goes on all the time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, NamedTuple

from hash_sets import contains
from local_replay import AUTO_SPLIT, SKEW_US, Replay, replayed
from model_broker import Bracket, ModelBroker
from model_state import Bug, Consumer
from recording_epochs import Judged, State, claims_of, judged

from dispatch_audit.pipeline.packing.repeated_rows import Refused

Selector = Literal["auto_split", "consistent_hashing", "exclusive"]
Snapshots = Literal["after each change", "some", "never"]
Sides = Literal["both", "some", "one", "exact"]

RING_OF_3X: Final = "3.0.7"
"""Its selectors, under the one dispatcher that the model has."""

KEYS: Final = [b"key-%d" % number for number in range(24)]
CHANGES_MAX: Final = 30
CONSUMERS_MAX: Final = 30
SETTINGS: Final[Mapping[Selector, Mapping[str, object]]] = {
    "auto_split": AUTO_SPLIT,
    # Few points: what a join takes is drawn as well by few, and ranges are quickly written.
    "consistent_hashing": {"subscriptionKeySharedConsistentHashingReplicaPoints": 10},
    "exclusive": {},
}
_SLOTS: Final = 32
_SLOT: Final = 65536 // _SLOTS
# Both together are less than the skew, which bounds the moment of a change that has one side.
_NEAR_US: Final = SKEW_US // 2 - 1


@dataclass(frozen=True)
class Plan:
    """What kind of schedule it is.

    Attributes:
        selector: by which hashes are divided.
        snapshots: when the broker is asked how it stands.
        sides: which rows a membership change has: both, one of some, one of each; or both at its very moment.
        equal_names: whether all consumers have one name.
        before: consumers that are there before the burst.
        changes: joins and leaves in the burst.
        reset: "seek", "unload" or "" for none.
        keys: how many there are; the fewer, the likelier it is that one is held where it moves.
        patience: the part of the time in which clients keep what they got.
        piecemeal: the part of what they acknowledge that they acknowledge by itself, not with all that they have.
        version: of the broker.
    """

    selector: Selector
    snapshots: Snapshots
    sides: Sides
    equal_names: bool
    before: int
    changes: int
    reset: str
    keys: int
    patience: float
    piecemeal: float
    version: str


def drawn(
    rng: Random,
    snapshots: Sequence[Snapshots] = ("after each change", "some", "never"),
    changes_max: int = CHANGES_MAX,
    versions: Sequence[str] = ("4.0.8", "4.0.8", "4.2.4", RING_OF_3X),
) -> Plan:
    """Any kind of schedule."""
    return Plan(
        selector=rng.choice(("auto_split", "consistent_hashing", "exclusive")),
        snapshots=rng.choice(snapshots),
        sides=rng.choice(("both", "both", "some", "one")),
        equal_names=rng.random() < 0.3,
        before=rng.randint(0, min(10, changes_max)),
        changes=rng.randint(2, changes_max),
        reset=rng.choice(("", "", "seek", "unload")),
        keys=rng.choice((4, 12, len(KEYS))),
        patience=rng.choice((0.0, 0.5, 0.95)),
        piecemeal=rng.choice((0.3, 1.0)),
        version=rng.choice(versions),
    )


class Ran(NamedTuple):
    """A schedule that has been run."""

    plan: Plan
    model: ModelBroker

    @property
    def states(self) -> list[State]:
        """What the broker had, change by change."""
        joined: set[int] = set()
        states = []
        for change in self.model.dispatcher.changes:
            joined |= change.ranges.keys()
            present = frozenset(joined), frozenset(change.ranges)
            states.append(State(change.seq, f"{change.kind} {change.number}", present, change.ranges))
        return states

    def audited(self) -> Replay:
        """The replay of what was recorded."""
        rows = self.model.log.rows
        return replayed(rows, version=self.plan.version, settings=SETTINGS[self.plan.selector], skew_us=SKEW_US)


class Outcome(NamedTuple):
    """The audit of a schedule.

    Attributes:
        plan: what kind of schedule it was.
        broken: how often each rule was broken, whether or not a known flaw explains it.
        refused: rows that the audit refused.
        epochs: held against what the broker had.
        dispatches: how many there were.
        unjudged: those of them whose hash nobody is known to have owned.
        unacknowledged: entries that are still waiting.
    """

    plan: Plan
    broken: Counter[str]
    refused: list[Refused]
    epochs: Judged
    dispatches: int
    unjudged: int
    unacknowledged: int

    @property
    def faultless(self) -> bool:
        """Whether the audit found nothing against the broker, and nothing of what it said of it is wrong."""
        return not (self.broken or self.refused or self.epochs.wrong or self.unacknowledged)


def outcome(rng: Random, plan: Plan, bug: Bug | None = None) -> Outcome:
    """Runs a schedule and audits it."""
    ran = run(rng, plan, bug)
    model, replay = ran.model, ran.audited()
    broken: Counter[str] = Counter()
    for (rule, severity), findings in replay.weighed.items():
        # What the model holds back because it drains, a dispatcher of 3.x would have sent.
        waits = plan.version == RING_OF_3X and rule in ("stalled", "redelivery_order")
        if severity in ("violation", "known_bug") and not waits:
            broken[rule] += findings
    began = [placed.since.seq for placed in replay.epochs]
    sent = [row for row in model.log.rows if (row["event"], row.get("phase")) == ("dispatch", "start")]
    in_force = [(row, bisect_left(began, row["seq"]) - 1) for row in sent]
    unjudged = sum(
        number >= 0 and contains(replay.epochs[number].epoch.undecided.ranges, model.state.hashes[row["entry_id"]])
        for row, number in in_force
    )
    epochs = judged(claims_of(replay.epochs), ran.states)
    waiting = len(set(range(len(model.state.keys))) - model.state.acked)
    return Outcome(plan, broken, replay.refused, epochs, len(sent), unjudged, waiting)


def outcome_of_seed(seed: int) -> tuple[int, Outcome]:
    """The outcome of any kind of schedule, by its seed."""
    rng = Random(seed)
    return seed, outcome(rng, drawn(rng))


def run(rng: Random, plan: Plan, bug: Bug | None = None) -> Ran:
    """Runs a schedule to its end, where everything is acknowledged that the broker sends."""
    bursts = _Bursts(rng, plan, bug)
    bursts.start()
    bursts.quiet(12)
    bursts.burst(plan.changes)
    bursts.quiet(25)
    if plan.reset:
        bursts.reset()
        bursts.burst(rng.randint(0, 5))
        bursts.quiet(12)
    bursts.settle()
    return Ran(plan, bursts.model)


class _Bursts:
    """Clients of a model dispatcher."""

    def __init__(self, rng: Random, plan: Plan, bug: Bug | None) -> None:
        self._rng = rng
        self._plan = plan
        latencies_us = [rng.randint(0, 15_000) for _ in range(11)]
        sticky = plan.selector == "exclusive"
        self.model = ModelBroker(latencies_us, SETTINGS[plan.selector], plan.version, bug, sticky)
        self._names = 0
        if plan.snapshots != "never":
            self.model.dispatcher.changed = self._snapshot

    def _snapshot(self) -> None:
        if self._plan.snapshots == "after each change":
            # After both rows of a change that has them at its very moment, and inside the bracket of another.
            self.model.snapshot_in(1)
        elif self._rng.random() < 0.2:
            self.model.snapshot_in(self._rng.randint(0, 30_000))

    def start(self) -> None:
        for _ in range(self._plan.before):
            self._join()
            self.model.run(self._rng.choice((1, 500, 60_000)))
        self.model.run(200_000)

    def quiet(self, steps: int) -> None:
        for _ in range(steps):
            self._traffic()
            self.model.run(self._rng.randint(0, 12_000))

    def burst(self, changes: int) -> None:
        for _ in range(changes):
            self._change()
            if self._rng.random() < 0.6:
                self._traffic()
            self.model.run(self._rng.choice((1, 1, 300, 1_000, 4_000)))

    def reset(self) -> None:
        """Whoever is there comes back, some of them before they could know that it is over."""
        model, rng = self.model, self._rng
        back = [(consumer.name, consumer.ranges) for consumer in model.consumers if consumer.open]
        late_us = 0 if self._plan.sides == "exact" else _NEAR_US
        closes_us = [(rng.randint(0, 10_000), rng.randint(-late_us, late_us)) for _ in model.consumers]
        # After the last acknowledged entry, as an unload that loses acknowledgements does, or anywhere.
        seek = rng.randint(0, len(model.state.keys)) if self._plan.reset == "seek" else None
        model.reset(self._plan.reset, closes_us, seek)
        rng.shuffle(back)
        for name, ranges in back:
            model.run(rng.choice((0, 0, 1_000, 5_000)))
            model.join(rng.choice((3, 1000)), self._bracket(), name, ranges)

    def settle(self) -> None:
        model = self.model
        model.run(1_500_000)
        missing = self._unowned()
        if missing or not self._there():
            model.join(1000, self._bracket(), "last", missing)
        model.run(200_000)
        for consumer in self._there():
            model.flow(consumer, 1000)
        for _ in range(2):
            for key in KEYS:
                model.publish(key)
            for _ in range(4):
                model.run(250_000)
                for consumer in self._there():
                    if consumer.received:
                        model.ack(consumer, *sorted(consumer.received))
        model.run(250_000)

    def _unowned(self) -> list[tuple[int, int]]:
        """What one more consumer must declare for every hash to have an owner."""
        if self._plan.selector != "exclusive":
            return []
        taken = {start for consumer in self.model.consumers for start, _ in consumer.ranges}
        return [_slot(number) for number in range(_SLOTS) if _slot(number)[0] not in taken]

    def _there(self) -> list[Consumer]:
        """Those whose clients know that they are there."""
        return [consumer for consumer in self.model.consumers if consumer.open and consumer.unrecorded is None]

    def _change(self) -> None:
        there, rng = self._there(), self._rng
        what = rng.choice(("join", "join", "leave", "leave", "restart"))
        if what == "join" or not there:
            if len(self.model.consumers) < CONSUMERS_MAX:
                self._join()
            return
        consumer = rng.choice(there)
        self.model.leave(consumer, self._bracket())
        if what == "restart":
            self.model.run(rng.choice((0, 1_000, 20_000)))
            self.model.join(rng.choice((3, 1000)), self._bracket(), consumer.name, consumer.ranges)

    def _join(self) -> None:
        rng = self._rng
        self._names += 1
        name = "same" if self._plan.equal_names else f"c{self._names}"
        ranges = []
        if self._plan.selector == "exclusive":
            first = rng.randrange(_SLOTS)
            ranges = [_slot(number) for number in range(first, min(first + rng.randint(1, 3), _SLOTS))]
        self.model.join(rng.choice((1, 3, 1000, 1000)), self._bracket(), name, ranges)

    def _bracket(self) -> Bracket:
        rng = self._rng
        if self._plan.sides == "exact":
            return Bracket("start end", 0, 0)
        one = self._plan.sides == "one" or (self._plan.sides == "some" and rng.random() < 0.3)
        if one:
            return Bracket(rng.choice(("start", "end")), rng.randint(0, _NEAR_US), rng.randint(0, _NEAR_US))
        return Bracket("start end", rng.randint(0, 30_000), rng.choice((0, 2_000, 20_000, rng.randint(0, 150_000))))

    def _traffic(self) -> None:
        model, rng = self.model, self._rng
        for _ in range(rng.randint(0, 3)):
            model.publish(rng.choice(KEYS[: self._plan.keys]))
        if rng.random() < self._plan.patience:
            return
        there = [consumer for consumer in self._there() if consumer.received]
        for consumer in rng.sample(there, min(len(there), 3)):
            received = sorted(consumer.received)
            if rng.random() < 0.04:
                model.give_back(consumer, rng.choice(received))
            else:
                acked = [rng.choice(received)] if rng.random() < self._plan.piecemeal else received
                model.ack(consumer, *acked)
                model.flow(consumer, len(acked))


def _slot(number: int) -> tuple[int, int]:
    return number * _SLOT, (number + 1) * _SLOT - 1
