"""Counters of snapshots that are below zero although they cannot be.

Unacknowledged messages are never below zero. The permits of a consumer may be, because the broker sends whole batches
(contract 4.14), but not if the consumer was sent single messages only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.state.index.consumer_index import ConsumerIndex
from dispatch_audit.pipeline.replay.state.records import NOBODY

Counter = Literal["unacked_messages", "available_permits"]

# The most counters that are kept with their details; the others are only counted.
_KEPT_MAX: Final = 10_000


@checkpointed("impossible_counter")
class ImpossibleCounter(NamedTuple):
    """A counter that is below zero in a snapshot and was not in the previous one."""

    snapshot: Snapshot  # the snapshot
    consumer: int  # the index of the consumer in the state; NOBODY: a counter of the subscription
    counter: Counter  # its name in TRACE_FORMAT
    value: int  # its value
    of_consumers: int  # for a counter of the subscription, the sum of those of its consumers; 0 for others
    after_leave: bool  # whether a consumer had left before


@checkpointed("impossible_counters")
@dataclass(eq=False, slots=True)
class ImpossibleCounters:
    """Checks the counters of one subscription in its snapshots, in their order."""

    checked: int = 0  # the number of counters checked
    found: list[ImpossibleCounter] = field(default_factory=list)  # the first impossible counters, up to the limit
    beyond: int = 0  # the number of impossible counters that were not kept
    _below: set[tuple[int, Counter]] = field(default_factory=set)
    _left: bool = False

    def look(self, snapshot: Snapshot, consumers: ConsumerIndex, sent_batches: Sequence[bool]) -> None:
        """Checks one snapshot; `sent_batches` says by index whether a consumer was sent a batch of several messages."""
        known = consumers.known_in(snapshot)
        self._left = self._left or len(known) < len(consumers)
        for index, consumer in known:
            self._note(snapshot, index, "unacked_messages", consumer.unacked)
            if not sent_batches[index]:
                self._note(snapshot, index, "available_permits", consumer.permits)
        of_consumers = sum(consumer.unacked or 0 for consumer in snapshot.consumers)
        self._note(snapshot, NOBODY, "unacked_messages", snapshot.unacked, of_consumers)

    def forget(self, reported_seq: int) -> None:
        """Drops the counters found up to the row `reported_seq`, and all counts."""
        self.checked = self.beyond = 0
        self.found = [counter for counter in self.found if counter.snapshot.seq > reported_seq]

    def _note(self, snapshot: Snapshot, index: int, counter: Counter, value: int | None, of_consumers: int = 0) -> None:
        if value is None:
            return
        self.checked += 1
        if value >= 0:
            self._below.discard((index, counter))
        elif (index, counter) not in self._below:
            self._below.add((index, counter))
            if len(self.found) < _KEPT_MAX:
                self.found.append(ImpossibleCounter(snapshot, index, counter, value, of_consumers, self._left))
            else:
                self.beyond += 1
