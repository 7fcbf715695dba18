"""The fields of a simulated dispatcher that reading, sending, settling and membership share (contract 11)."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Protocol

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.assignment.selectors.selector import Selector
from dispatch_audit.pipeline.simulate.state.agenda import NEVER, Agenda
from dispatch_audit.pipeline.simulate.state.broker_settings import BrokerSettings, Timing
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.cursor import Cursor
from dispatch_audit.pipeline.simulate.state.delayed_entries import DelayedEntries
from dispatch_audit.pipeline.simulate.state.dispatch_rates import DispatchRates
from dispatch_audit.pipeline.simulate.state.draws import drawn_between
from dispatch_audit.pipeline.simulate.state.replay_queue import ReplayQueue
from dispatch_audit.pipeline.simulate.state.switches import Switches


@dataclass(slots=True)
class Counters:
    """What a dispatcher did.

    Attributes:
        reads: reads that returned entries.
        entries_read: entries in them.
        entries_wasted: entries of them that were not sent.
        sent: entries sent, those sent again included.
        guarded: entries that the race guard or the replay-addition guard held back.
        overflowed: entries written to the overflow ledger.
        overflowed_messages: messages in them.
        overflowed_bytes: their bytes.
        overflow_read: entries read from the overflow ledger.
    """

    reads: int = 0
    entries_read: int = 0
    entries_wasted: int = 0
    sent: int = 0
    guarded: int = 0
    overflowed: int = 0
    overflowed_messages: int = 0
    overflowed_bytes: int = 0
    overflow_read: int = 0


class DispatchLog(Protocol):
    """Takes the rows that a dispatcher writes."""

    def dispatched(self, now_us: int, consumer: int, position: int, redelivery_count: int) -> None:
        """An entry was sent to a consumer."""


@dataclass
class Entries:
    """The entries of a topic partition, by position.

    Attributes:
        hashes: the sticky hash of each entry.
        messages: the messages in each; None: one in each.
        sizes: the bytes of each; None: unknown.
    """

    hashes: Sequence[int]
    messages: Sequence[int] | None = None
    sizes: Sequence[int] | None = None

    @cached_property
    def mean_bytes(self) -> int:
        """The mean size of an entry, by which a read is bounded (contract 4.3)."""
        return 0 if not self.sizes else sum(self.sizes) // len(self.sizes)

    def messages_in(self, position: int) -> int:
        """The messages of an entry."""
        return 1 if self.messages is None else self.messages[position]

    def bytes_in(self, position: int) -> int:
        """The bytes of an entry; 0 if unknown."""
        return 0 if self.sizes is None else self.sizes[position]


class DispatcherState:
    """The fields of one dispatcher.

    Attributes:
        consumers: those connected, in the order of joining.
        by_number: the same, by number.
        owners: the owner of each hash that was asked for in this epoch.
        total_permits: the dispatcher's own sum of permits.
        unacked: messages unacknowledged at all consumers, as the broker counts them.
        unacked_limit: how many of them stop normal reads; `NEVER`: no number does.
        blocked_on_unacked: whether normal reads stop because of them.
        acked_while_held: whether a consumer may hold an entry that the cursor has acknowledged.
        overlapped: entries that two results in flight contain: of replay reads (F10, contract 6.6), or of reads before
            and after a rewind.
        normal_in_flight: the first entry of a normal read that is read and not dispatched; `NEVER`: there is none.
        rates: the dispatch rate limits; None: there are none.
        delayed: the entries that a producer delayed; None: no producer delays any.
        redelivery_counts: of entries that were given back by a command.
        first_sent_us: when each entry was sent for the first time; -1: not yet.
        last_sent_us: when anything was sent.
        unblocked: asks for a read after the unblocking interval (contract 4.9); set by the read loop.
        mark_delete_moved: call after acknowledgements, with whether mark-delete moved; set by the read loop.
        send: sends entries to a connected consumer; set by the sender.
        deliver: hands entries to the client of a consumer.
        draw_read_us: draws the time of a read of the ledger.
        draw_dispatch_us: draws the time from the end of a read to its dispatch.
    """

    __slots__ = (
        "acked_while_held",
        "agenda",
        "blocked_on_unacked",
        "by_number",
        "consumers",
        "counters",
        "cursor",
        "delayed",
        "deliver",
        "draw_dispatch_us",
        "draw_read_us",
        "entries",
        "first_sent_us",
        "hashes",
        "last_sent_us",
        "log",
        "mark_delete_moved",
        "normal_in_flight",
        "overlapped",
        "owners",
        "rates",
        "redelivery_counts",
        "replay",
        "rng",
        "selector",
        "send",
        "settings",
        "switches",
        "timing",
        "total_permits",
        "unacked",
        "unacked_limit",
        "unblocked",
    )

    def __init__(
        self,
        agenda: Agenda,
        cursor: Cursor,
        entries: Entries,
        selector: Selector,
        settings: BrokerSettings,
        timing: Timing,
        switches: Switches,
        log: DispatchLog,
        deliver: Callable[[Consumer, list[int]], None],
        rng: Random,
    ) -> None:
        self.agenda = agenda
        self.cursor = cursor
        self.entries = entries
        self.hashes = entries.hashes
        self.selector = selector
        self.settings = settings
        self.timing = timing
        self.switches = switches
        self.log = log
        self.deliver = deliver
        self.rng = rng
        self.draw_read_us = drawn_between(rng, *timing.read_us)
        self.draw_dispatch_us = drawn_between(rng, *timing.dispatch_us)
        self.counters = Counters()
        self.first_sent_us = array("q", [-1]) * len(entries.hashes)
        self.last_sent_us = 0
        self.unblocked: Callable[[], None] = _not_wired
        self.mark_delete_moved: Callable[[bool], None] = _not_wired
        self.send: Callable[[int, list[int]], None] = _not_wired
        self.consumers: list[Consumer] = []
        self.by_number: dict[int, Consumer] = {}
        self.owners: dict[int, int] = {}
        self.replay = ReplayQueue(self.owner_of)
        self.total_permits = 0
        self.unacked = 0
        self.unacked_limit = settings.unacked_per_subscription or NEVER
        self.blocked_on_unacked = False
        self.acked_while_held = False
        self.normal_in_flight = NEVER
        self.overlapped: set[int] = set()
        self.rates: DispatchRates | None = None
        self.delayed: DelayedEntries | None = None
        self.redelivery_counts: dict[int, int] = {}

    def owner_of(self, sticky_hash: int) -> int:
        """The number of the consumer that owns a hash, or `NOBODY`."""
        found = self.owners.get(sticky_hash)
        if found is None:
            selected = self.selector.select(sticky_hash)
            self.owners[sticky_hash] = found = NOBODY if selected is None else selected
        return found

    def first_permits(self) -> int:
        """The permits of the first consumer that has any and is not blocked; 0: there is none (contract 4.2)."""
        for consumer in self.consumers:
            if consumer.permits > 0 and not consumer.blocked:
                return consumer.permits
        return 0

    def any_available(self) -> bool:
        """Whether some consumer is not blocked and may be sent an entry (contract 4.6)."""
        for consumer in self.consumers:  # noqa: SIM110 - asked for each read, and a generator costs more than the answer
            if not consumer.blocked and consumer.available() > 0:
                return True
        return False

    def count_unacked(self, messages: int) -> bool:
        """Counts so many messages more as unacknowledged, or fewer (contract 4.14).

        Returns:
            Whether normal reads were stopped and may go on, which is a reason to read.
        """
        self.unacked += messages
        was_blocked = self.blocked_on_unacked
        self.blocked_on_unacked = self.unacked >= self.unacked_limit or (
            was_blocked and self.unacked_limit != NEVER and self.unacked * 2 >= self.unacked_limit
        )
        return was_blocked and not self.blocked_on_unacked

    def change_settings(self, settings: BrokerSettings) -> None:
        """Puts other settings in force; the broker asks for each when it needs it."""
        self.settings = settings
        self.unacked_limit = settings.unacked_per_subscription or NEVER
        for consumer in self.consumers:
            consumer.unacked_max = settings.unacked_per_consumer
        if settings.rates or self.rates is not None:
            self.rates = self.rates or DispatchRates()
            self.rates.change(settings.rates, self.agenda.now_us)
        if self.delayed is not None:
            self.delayed.tick_us, self.delayed.enabled = settings.tick_us, settings.delays

    def ownership_changed(self) -> None:
        """Call after every change of the selector."""
        self.owners.clear()
        self.replay.regroup()

    def wait_in_replay(self, position: int) -> None:
        """Puts an entry into replay with its hash, unless mark-delete has passed it."""
        if position > self.cursor.mark_delete:
            self.replay.add(position, self.hashes[position])


def _not_wired(*_: object) -> None:
    raise AssertionError("the dispatcher has no read loop yet")
