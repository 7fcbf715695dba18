"""What the model dispatcher has and knows: consumers, entries, who owns what, what drains, what waits in replay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for
from dispatch_audit.pipeline.replay.settings.broker_limits import limits_of
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes


class Bug(Enum):
    """One safeguard less."""

    NO_DRAINING = auto()  # nobody asks whether another consumer still holds the hash
    NO_REPLAY_CHECK = auto()  # a normal read asks neither for entries of the hash in replay nor for those just refused
    EARLY_UNBLOCK = auto()  # the first acknowledgement ends the draining of its hash
    DOUBLE_REGISTRATION = auto()  # a hash that returns is not taken off the list of draining ones (3.9; to 4.0.6)
    WRONG_OWNER = auto()  # who came first is sent everything, whatever the selector says


class Change(NamedTuple):
    """A membership change when it happened, and what it made of the assignment.

    Attributes:
        seq: of the last row before it.
        kind: "join" or "leave".
        number: of the consumer.
        ranges: by consumer, of all who are there now.
    """

    seq: int
    kind: str
    number: int
    ranges: Mapping[int, list[tuple[int, int]]]


@dataclass
class Draining:
    """A hash that another consumer still holds entries of (3.4)."""

    holder: "Consumer"
    entries: int = 0
    blocked: int = 0


@dataclass(eq=False)
class Consumer:
    """A consumer, and its client.

    Attributes:
        number: in the trace.
        permits: messages that it asked for and was not sent.
        withheld: asked for while it was blocked (4.14).
        blocked: it has had too much unacknowledged.
        pending: hash by position.
        received: what the client has, and has neither acknowledged nor given back.
        up_us: when the last of its commands takes effect, for they do so in their order.
        down_us: when the last message to it arrives.
        open: it is connected, knows it, and has not asked to be closed.
        name: as the client gave it.
        ranges: what a STICKY consumer declares.
        leaving: its client asked the broker to close it.
        unrecorded: writes the end of its join, which is still to come.
    """

    number: int
    name: str
    ranges: Sequence[tuple[int, int]] = ()
    permits: int = 0
    withheld: int = 0
    blocked: bool = False
    pending: dict[int, int] = field(default_factory=dict)
    received: set[int] = field(default_factory=set)
    up_us: int = 0
    down_us: int = 0
    open: bool = True
    leaving: bool = False
    unrecorded: Callable[[], None] | None = None


class ModelState:
    """The state of a subscription.

    Args:
        settings: of broker.conf.
        version: whose selectors and limits it has.
        bug: a safeguard that it lacks.
        sticky: consumers declare their ranges.

    Attributes:
        consumers: in the order in which they joined.
        keys, hashes: by position.
        acked: positions that are acknowledged.
        mark_delete: the last position up to which all are.
        replay: hash by position; None: it is not known there.
        draining: by hash.
    """

    def __init__(self, settings: Mapping[str, object], version: str, bug: Bug | None, sticky: bool) -> None:
        profile = profile_for(version, settings)
        broker = profile.broker(settings)
        kind: SelectorKind = "auto_split"
        if sticky:
            kind = "exclusive"
        elif broker["subscriptionKeySharedUseConsistentHashing"]:
            kind = "consistent_hashing"
        points = int(str(broker["subscriptionKeySharedConsistentHashingReplicaPoints"]))
        self.consumers: list[Consumer] = []
        self.keys: list[bytes] = []
        self.hashes: list[int] = []
        self.acked: set[int] = set()
        self.mark_delete = -1
        self.replay: dict[int, int | None] = {}
        self.draining: dict[int, Draining] = {}
        self.bug = bug
        self.limits = limits_of(broker, looks_ahead=True)
        self.unblocking_us = int(str(broker.get("keySharedUnblockingIntervalMs", 10))) * 1000
        self._hash_rule = profile.hash[kind]
        self._new_selector = partial(make_selector, kind, points, profile)
        self.selector = self._new_selector()

    def store(self, key: bytes) -> int:
        """Adds an entry; returns its position."""
        self.keys.append(key)
        self.hashes.append(int(sticky_hashes([key], self._hash_rule)[0]))
        return len(self.keys) - 1

    def forget_consumers(self) -> None:
        """Takes a new selector, as an unload does."""
        self.selector = self._new_selector()

    def ranges(self) -> dict[int, list[tuple[int, int]]]:
        """The ranges of each consumer."""
        owned: dict[int, list[tuple[int, int]]] = {consumer.number: [] for consumer in self.consumers}
        for start, end, number in self.selector.ranges().rows:
            owned[number].append((start, end))
        return owned

    def owners(self) -> dict[int, int | None]:
        """The owner of each hash that there is."""
        return {h: self.selector.select(h) for h in set(self.hashes)}

    def owner(self, sticky_hash: int) -> Consumer | None:
        """Nobody, where nobody declared the hash."""
        if self.bug is Bug.WRONG_OWNER:
            return self.consumers[0]
        number = self.selector.select(sticky_hash)
        return next((consumer for consumer in self.consumers if consumer.number == number), None)

    def room(self, consumer: Consumer) -> int:
        """Entries that it may be sent (4.8)."""
        limit = self.limits.unacked_per_consumer
        return max(min(consumer.permits, limit - len(consumer.pending) if limit else consumer.permits), 0)

    def look_ahead_limit(self) -> int:
        """How many entries replay may have before nothing new is read."""
        limit = self.limits.look_ahead(len(self.consumers))
        assert limit is not None
        return limit

    def to_replay(self, position: int, sticky_hash: int | None) -> None:
        """An entry waits in replay."""
        if position > self.mark_delete:
            # Added without a hash, what has one keeps it (4.12).
            self.replay[position] = self.replay.get(position) if sticky_hash is None else sticky_hash

    def reduce(self, holder: Consumer, sticky_hash: int) -> bool:
        """A consumer has one entry of a hash less; returns whether others may be sent it now that waited (3.4)."""
        draining = self.draining.get(sticky_hash)
        if draining is None or draining.holder is not holder:
            return False
        draining.entries -= 1
        if draining.entries > 0 and self.bug is not Bug.EARLY_UNBLOCK:
            return False
        del self.draining[sticky_hash]
        return draining.blocked > 0

    def should_block(self, owner: Consumer, sticky_hash: int) -> bool:
        """Whether another consumer still holds the hash of an entry for this one (3.4)."""
        draining = self.draining.get(sticky_hash)
        if draining is None or self.bug is Bug.NO_DRAINING:
            return False
        if draining.holder is owner:
            del self.draining[sticky_hash]
            return False
        draining.blocked += 1
        return True
