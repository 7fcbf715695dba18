"""A dispatcher that keeps its promise: 4.0.8, AUTO_SPLIT, ordered (contract 11), with faults to choose from.

It stays beside the simulator (`pipeline/simulate`). That one is of the product: audits of its traces are what it is
tested by, so what audit and simulator both have got wrong shows here and in recordings only. And its actions begin and
end at one moment, while here rows come before and after an effect, in any order with those of others (`model_broker`):
commands that are on their way when their consumer leaves, clients that are back before a reset has ended, joins that
are refused meanwhile. Selectors, hashes and limits are those of the product; Pulsar's own classes test them.

What it leaves out: batches, delayed delivery, expiry and the like, read failures. In four things it is better than the
4.0.8 of the contract, which breaks its promise there: what a replay read brings that began before the last consumer
left is dropped, as from 5.0.1 on (3.12), else the rewound cursor reads those entries once more; it looks ahead only
where there is something to read, as from 4.2.4 on (3.11); a leave always asks for a read, else what waited for a leaver
that held nothing waits until somebody else asks for one (3.6); results are dispatched one at a time, so that no two
replay reads overlap (6.6). A `Bug` takes one safeguard away.
"""

from collections.abc import Callable, Sequence

from local_replay import Log
from model_agenda import Agenda
from model_reads import ModelReads
from model_state import Bug, Change, Consumer, Draining, ModelState


class ModelDispatcher:
    """One subscription and its topic; commands and their rows are the business of `ModelBroker`.

    Args:
        agenda: of the model.
        log: of the recorder.
        state: where it begins.

    Attributes:
        changes: of its consumers.
        changed: is called after each change.
    """

    def __init__(self, agenda: Agenda, log: Log, state: ModelState) -> None:
        self._log, self.state = log, state
        self._redelivered: dict[int, int] = {}
        self.reads = ModelReads(agenda, log, state, self._redelivered)
        self.changes: list[Change] = []
        self.changed: Callable[[], None] = lambda: None

    def start_anew(self, unloaded: bool, to: int | None) -> None:
        """Goes on without consumers after a reset, from a position if one is given."""
        if unloaded:
            self.state.forget_consumers()
            self.reads.start_anew()
        if to is not None:
            self.state.acked = set(range(to))
            self.state.mark_delete = to - 1
            self.reads.moved_to(to)

    # Consumers come and go (3.5, 3.6).

    def _note(self, kind: str, consumer: Consumer) -> None:
        self.changes.append(Change(len(self._log.rows), kind, consumer.number, self.state.ranges()))
        self.changed()

    def add(self, consumer: Consumer) -> None:
        """A consumer joins."""
        before = self.state.owners()
        self.state.selector.add(consumer.number, consumer.name, consumer.ranges)
        if not self.state.consumers:
            self.reads.first_joined()
            self.state.replay.clear()
        self.state.consumers.append(consumer)
        self._drain_what_moved(before)
        self._note("join", consumer)

    def remove(self, leaver: Consumer) -> None:
        """A consumer leaves; what it holds waits in replay, unless it is the last one."""
        before = self.state.owners()
        self.state.selector.remove(leaver.number)
        self.state.consumers.remove(leaver)
        if not self.state.consumers:
            self.state.replay.clear()
            self._redelivered.clear()
            self.state.draining.clear()
            self.reads.last_left()
            self._note("leave", leaver)
            return
        for position, sticky_hash in sorted(leaver.pending.items()):
            self.state.to_replay(position, sticky_hash)
            self.state.reduce(leaver, sticky_hash)
        leaver.pending.clear()
        self.reads.ask_to_read()
        self._drain_what_moved(before)
        self._note("leave", leaver)

    def _drain_what_moved(self, before: dict[int, int | None]) -> None:
        state, owner = self.state, self.state.selector.select
        for holder in state.consumers:
            moved = [h for h in holder.pending.values() if holder.number == before[h] != owner(h)]
            for sticky_hash in moved:
                state.draining.setdefault(sticky_hash, Draining(holder)).entries += 1
        if state.bug is Bug.DOUBLE_REGISTRATION:
            return
        for holder in state.consumers:
            returned = [h for h in holder.pending.values() if before[h] != owner(h) == holder.number]
            for sticky_hash in returned:
                self._reduce(holder, sticky_hash)

    def acknowledge(self, consumer: Consumer, position: int) -> None:
        """An entry is acknowledged (5)."""
        sticky_hash = consumer.pending.pop(position, None)
        if sticky_hash is not None:
            self._reduce(consumer, sticky_hash)
            if consumer.blocked and len(consumer.pending) <= self.state.limits.unacked_per_consumer // 2:
                self._grant_withheld(consumer)
        self.state.acked.add(position)
        self._redelivered.pop(position, None)
        before = self.state.mark_delete
        while self.state.mark_delete + 1 in self.state.acked:
            self.state.mark_delete += 1
        if self.state.mark_delete != before:
            self.reads.unblock()

    def grant(self, consumer: Consumer, permits: int) -> None:
        """A consumer asks for messages (4.14)."""
        limit = self.state.limits.unacked_per_consumer
        if limit and len(consumer.pending) >= limit:
            consumer.blocked = True
        if consumer.blocked:
            consumer.withheld += permits
        else:
            consumer.permits += permits
            self.reads.ask_to_read()

    def _grant_withheld(self, consumer: Consumer) -> None:
        consumer.blocked = False
        consumer.permits += consumer.withheld
        consumer.withheld = 0
        self.reads.ask_to_read()

    def redeliver(self, consumer: Consumer, positions: Sequence[int]) -> None:
        """A consumer gives entries back, or all that it holds."""
        held = [p for p in positions or sorted(consumer.pending) if p in consumer.pending]
        for position in held:
            self._reduce(consumer, consumer.pending.pop(position))
            consumer.received.discard(position)
            self.state.to_replay(position, None)
            self._redelivered[position] = self._redelivered.get(position, 0) + 1
        self._grant_withheld(consumer)

    def _reduce(self, holder: Consumer, sticky_hash: int) -> None:
        if self.state.reduce(holder, sticky_hash):
            self.reads.unblock()
