"""The compiled core against a deliberately simple one, on random schedules, also such as break every promise."""

import random
from typing import TypeAlias

import pytest
from examples import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, Finding, Log, Replay, replayed
from simple_dispatcher import Position, SimpleDispatcher

KEYS = [LOW, LOWEST, HIGH, HIGHEST]
CONSUMERS_MAX = 6
LEDGER_LENGTH = 9

# Like a broker: every entry goes to the owner of its hash, what waits longest first.
HONEST = ["publish", "publish", "deliver", "deliver", "ack", "ack", "part", "redeliver", "join", "leave"]
# Like none: any entry to anybody at any time.
ANY = [*HONEST, "dispatch", "dispatch", "dispatch", "ahead", "ack any", "redeliver any"]

# The simple one knows no more rules; the others have recordings and faults to answer to.
OF_THE_SIMPLE_ONE = {"single_holder", "ownership", "first_delivery_order", "early_duplicate"}

Operation: TypeAlias = tuple[str, int, int, int]


def operations(kinds: list[str]) -> st.SearchStrategy[list[Operation]]:
    small = st.integers(0, 11)
    return st.lists(st.tuples(st.sampled_from(kinds), small, small, small), min_size=30, max_size=80)


class Schedule:
    """Turns operations into rows, as far as they are possible when their turn comes."""

    def __init__(self, version: str, broker: dict[str, object]) -> None:
        self.log = Log()
        self.simple = SimpleDispatcher(version, broker)
        self._joined = 0
        self._unpublished: list[Position] = []
        self._positions = 0
        self._row("publish", 0, 0)
        self._row("join", 0, 0)

    def run(self, operations: list[Operation]) -> None:
        for kind, a, b, pause in operations:
            self.log.now_us += 700 * pause
            self._row(kind, a, b)
        self.simple.close()

    def _row(self, kind: str, a: int, b: int) -> None:
        taken = len(self.log.rows)
        # Both sides of an interval at one time: no width.
        self.log.step_us = 0
        getattr(self, "_" + kind.replace(" ", "_"))(a, b)
        for row in self.log.rows[taken:]:
            self.simple.take(row)

    def _next_position(self) -> Position:
        self._positions += 1
        return 1 + (self._positions - 1) // LEDGER_LENGTH, (self._positions - 1) % LEDGER_LENGTH

    @staticmethod
    def _key(position: Position) -> bytes:
        return KEYS[(position[0] + position[1] * 3 // 2) % len(KEYS)]

    @staticmethod
    def _batch(position: Position) -> int:
        return (1, 3, 130)[position[1] % 3]

    def _publish(self, a: int, b: int) -> None:
        position = self._unpublished.pop() if self._unpublished else self._next_position()
        delayed = {"deliver_at_ms": 5} if a == 11 else {}
        self.log.publish(position, self._key(position), batch_size=self._batch(position), **delayed)

    def _join(self, a: int, b: int) -> None:
        if len(self.simple.connected) < CONSUMERS_MAX:
            self._joined += 1
            self.log.join(self._joined)

    def _leave(self, a: int, b: int) -> None:
        if self.simple.connected:
            self.log.leave(self.simple.connected[a % len(self.simple.connected)])

    def _deliver(self, a: int, b: int) -> None:
        oldest: dict[int, Position] = {}
        for position in sorted(p for p, entry in self.simple.entries.items() if entry.waiting):
            oldest.setdefault(self.simple.entries[position].hash, position)
        for position in sorted(oldest.values())[a % 2 :]:
            owner = self.simple.owner(self.simple.entries[position].hash)
            held = [self.simple.entries[p] for p in self.simple.pending]
            blocked = any(e.hash == self.simple.entries[position].hash and e.holder != owner for e in held)
            if owner >= 0 and not blocked:
                self.log.dispatch(owner, position, self._key(position), batch_size=self._batch(position))
                return

    def _dispatch(self, a: int, b: int) -> None:
        known = sorted(self.simple.entries)
        position = known[-1 - a % len(known)]
        self._dispatch_to(b, position)

    def _ahead(self, a: int, b: int) -> None:
        """A dispatch that is recorded before the publish of its entry."""
        if not self._unpublished:
            self._unpublished.append(self._next_position())
            self._dispatch_to(b, self._unpublished[0])

    def _dispatch_to(self, b: int, position: Position) -> None:
        consumer = self._consumer(b)
        self.log.dispatch(consumer, position, self._key(position), batch_size=self._batch(position))

    def _consumer(self, b: int) -> int:
        """One that is connected, or once in a while one that was."""
        return self._joined - b % min(self._joined, 3) if b == 11 else self._connected(b)

    def _connected(self, b: int) -> int:
        connected = self.simple.connected
        return connected[b % len(connected)] if connected else self._joined

    def _ack(self, a: int, b: int) -> None:
        if self.simple.pending:
            position = self.simple.pending[a % len(self.simple.pending)]
            self.log.ack(self.simple.entries[position].holder, position)

    def _ack_any(self, a: int, b: int) -> None:
        known = sorted(self.simple.entries)
        ack_type = "cumulative" if a == 7 else "individual"
        self.log.ack(self._consumer(b), known[-1 - a % len(known)], ack_type=ack_type)

    def _part(self, a: int, b: int) -> None:
        if self.simple.pending:
            position = self.simple.pending[a % len(self.simple.pending)]
            words = [[-2], [1], [3], [-2, -1, 1], [1, -1, 3], [1], [0, 0], [0, -1, 2]][b % 8]
            self.log.ack(self._consumer(b), position, ack_set=words)

    def _redeliver(self, a: int, b: int) -> None:
        held = [p for p in self.simple.pending if a % 3]
        self.log.redeliver(self._consumer(b), *held[a % 4 : a % 4 + 2])

    def _redeliver_any(self, a: int, b: int) -> None:
        """Also what it does not hold, and may get before the row takes effect."""
        known = sorted(self.simple.entries)
        self.log.redeliver(self._consumer(b), known[-1 - a % len(known)])


def _without_what_the_rule_leaves_open(findings: list[Finding]) -> list[Finding]:
    """Which later entry a late first delivery is held against is evidence, not part of the rule."""
    known = [f for f in findings if f.rule in OF_THE_SIMPLE_ONE]
    return [f._replace(other_consumer=-2, other_seq=-2) if f.rule == "first_delivery_order" else f for f in known]


def _compare(schedule: Schedule, replay: Replay) -> None:
    simple = schedule.simple
    expected = sorted(simple.findings, key=lambda f: (f.seq, f.rule))
    found = _without_what_the_rule_leaves_open(replay.findings)
    assert len(found) == len(expected)
    # Of an acknowledged entry that the simple one has forgotten, the audit may still know whom it was sent to (F10).
    forgotten = [e.acknowledged and e.other_consumer < 0 for e in expected]
    assert [
        f._replace(other_consumer=-1, other_seq=-1) if is_forgotten else f
        for f, is_forgotten in zip(found, forgotten, strict=True)
    ] == expected
    assert replay.episodes == sorted(simple.episodes, key=lambda e: (e.hash, e.from_seq))
    assert {c: list(counts) for c, counts in replay.replayed.dispatcher.counts.items()} == simple.counts
    assert replay.refused == []


Broker: TypeAlias = tuple[str, dict[str, object]]
"""The version and the settings."""

_IGNORES_ACK_SETS: Broker = ("4.0.8", {**AUTO_SPLIT, "acknowledgmentAtBatchIndexLevelEnabled": False})
brokers = st.sampled_from([("4.0.8", {}), ("4.0.8", dict(AUTO_SPLIT)), _IGNORES_ACK_SETS, ("4.2.4", dict(AUTO_SPLIT))])


@examples(200)
@given(operations(ANY), brokers, st.integers(1, 40))
def test_both_find_the_same_in_schedules_that_break_every_promise(
    operations: list[Operation], broker: Broker, rows_per_batch: int
) -> None:
    version, settings = broker
    schedule = Schedule(version, settings)
    schedule.run(operations)
    assume(not schedule.simple.depends_on_memory)
    _compare(schedule, replayed(schedule.log.rows, version=version, settings=settings, rows_per_batch=rows_per_batch))


@examples(100)
@given(operations(HONEST), brokers)
def test_both_find_nothing_but_draining_where_the_promise_is_kept(operations: list[Operation], broker: Broker) -> None:
    version, settings = broker
    schedule = Schedule(version, settings)
    schedule.run(operations)
    replay = replayed(schedule.log.rows, version=version, settings=settings)
    _compare(schedule, replay)
    # What is nacked may be overtaken (E1).
    assert replay.violated == []


def random_schedule(seed: int, length: int) -> Schedule:
    """A schedule that breaks every promise."""
    chance, small = random.Random(seed), range(12)
    schedule = Schedule("4.0.8", dict(AUTO_SPLIT))
    schedule.run(
        [(chance.choice(ANY), chance.choice(small), chance.choice(small), chance.choice(small)) for _ in range(length)]
    )
    return schedule


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_both_find_the_same_in_a_long_schedule(seed: int) -> None:
    schedule = random_schedule(seed, 900)
    _compare(schedule, replayed(schedule.log.rows, rows_per_batch=100))
