"""The statistics of a topic as typed objects. A field is None where the document does not have it.

Positions are (ledger, entry). Moments are milliseconds since 1970 UTC, and 0 stands for "never", as in a broker. Rates
are per second over the last period of the broker's statistics (statsUpdateFrequencyInSecs, 60 s), so a rate of 0 may be
a minute old. Counters are read one after the other, not at one instant.

Source: contract 7; `ConsumerStatsImpl`, `SubscriptionStatsImpl`, `PersistentTopicInternalStats` of 3.0 to 5.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Position = tuple[int, int]

KEY_SHARED: Final = "Key_Shared"
STICKY: Final = "STICKY"


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """One consumer.

    Attributes:
        draining: of each draining hash that it holds: hash, entries, refused attempts to send; None: not reported.
        draining_entries: entries of draining hashes that it holds (`drainingHashesUnackedMessages`).
        ranges: hash ranges, inclusive; only of STICKY subscriptions, else None.
        ranges_count: how many it has; None: not reported.
    """

    name: str
    address: str | None = None
    connected_since: str | None = None
    client_version: str | None = None
    permits: int | None = None
    unacked: int | None = None
    messages_per_entry: int | None = None
    blocked: bool | None = None
    rate_out: float | None = None
    rate_acked: float | None = None
    sent: int | None = None
    draining_count: int | None = None
    draining_entries: int | None = None
    draining: tuple[tuple[int, int, int], ...] | None = None
    ranges: tuple[tuple[int, int], ...] | None = None
    ranges_count: int | None = None
    read_position_when_joining: Position | None = None
    last_acked_ms: int | None = None
    last_sent_ms: int | None = None
    last_flow_ms: int | None = None

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What distinguishes it from other consumers, also of its name, as far as statistics have that."""
        return (self.name, self.address, self.connected_since)

    @property
    def is_identified(self) -> bool:
        """Whether its identity is of one connection: consumers of all partitions have one name."""
        return self.address is not None or self.connected_since is not None


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """One subscription of one topic.

    Attributes:
        consumers: those that are whole in the document.
        cut: whether consumers or fields may be missing, because the document is cut off.
        connected: how many consumers are connected, where `consumers` does not list them; None: it does, or not known.
        lists_consumers: whether `consumers` has all of them, unless the document is cut off.
        after_mark_delete: the recently joined consumers by name, with the position at which each joined; None: not
            reported.
        throttled: reads that rate limits shortened or delayed, of all kinds.
        rejected: messages that entry filters rejected.
        rescheduled: how often they put off one.
        expired: messages that the message TTL took, in entries.
        has_text_ranges: whether hash ranges are texts, as 3.x and the classic dispatcher write them.
    """

    name: str
    type: str | None = None
    active_consumer: str | None = None
    mode: str | None = None
    out_of_order: bool | None = None
    consumers: tuple[ConsumerStats, ...] = ()
    cut: bool = False
    connected: int | None = None
    lists_consumers: bool = True
    backlog: int | None = None
    delayed: int | None = None
    replay: int | None = None
    unacked: int | None = None
    blocked: bool | None = None
    rate_out: float | None = None
    sent: int | None = None
    last_sent_ms: int | None = None
    last_acked_ms: int | None = None
    last_flow_ms: int | None = None
    last_mark_delete_ms: int | None = None
    holes: int | None = None
    after_mark_delete: Mapping[str, Position] | None = None
    throttled: int | None = None
    rejected: int | None = None
    rescheduled: int | None = None
    expired: int | None = None
    rate_redeliver: float | None = None
    has_text_ranges: bool = False


@dataclass(frozen=True, slots=True)
class CursorStats:
    """The cursor of a subscription, from the statistics of the managed ledger."""

    mark_delete: Position | None = None
    read_position: Position | None = None
    waiting_read: bool | None = None
    pending_reads: int | None = None
    have_pending_read: bool | None = None
    have_pending_replay_read: bool | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The managed ledger of a topic.

    Attributes:
        last_confirmed: position of the last entry.
        entries_of: entries by ledger; 0 for the one that is written.
    """

    last_confirmed: Position | None = None
    entries_of: Mapping[int, int] = field(default_factory=dict)

    def unread(self, read_position: Position | None) -> int | None:
        """The entries from the read position to the end; None: not known."""
        if read_position is None or self.last_confirmed is None:
            return None
        (ledger, entry), (last_ledger, last_entry) = read_position, self.last_confirmed
        if (ledger, entry) > (last_ledger, last_entry):
            return 0
        if ledger == last_ledger:
            return last_entry - entry + 1
        if ledger not in self.entries_of:
            return None
        between = sum(n for one, n in self.entries_of.items() if ledger < one < last_ledger)
        return max(self.entries_of[ledger] - entry, 0) + between + last_entry + 1


@dataclass(frozen=True, slots=True)
class Topic:
    """The statistics of one topic in one document; either part may be absent.

    Attributes:
        topic: its name; None: the document does not say.
        subscriptions: by name.
        cursors: by name of the subscription.
        aggregated: whether the numbers are sums over partitions.
        from_metrics: whether it comes from metrics, which have no types, and few fields of consumers.
        published: messages since the topic was loaded (`msgInCounter`); None: not reported.
        size: bytes in its ledgers (`storageSize`, `totalSize`); None: not reported.
        latest_ms: the latest time in what is no part of a subscription; 0: there is none.
        unreadable: fields with values of another type, which were left out.
    """

    topic: str | None
    subscriptions: tuple[SubscriptionStats, ...] = ()
    cursors: Mapping[str, CursorStats] = field(default_factory=dict)
    ledger: Ledger | None = None
    aggregated: bool = False
    from_metrics: bool = False
    published: int | None = None
    size: int | None = None
    latest_ms: int = 0
    unreadable: tuple[str, ...] = ()
