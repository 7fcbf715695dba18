"""Turns documents into typed statistics. Numbers and flags may be texts; values of other types are left out and named.

Source: contract 7 for the names of fields, and which releases have them.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from dispatch_audit.pipeline.statistics.model import (
    STICKY,
    ConsumerStats,
    CursorStats,
    Ledger,
    Position,
    SubscriptionStats,
    Topic,
)
from dispatch_audit.pipeline.statistics.reading.json_scan import CutDict, CutList

Json = Mapping[str, Any]

_INTEGER: Final = re.compile(r"\s*-?\d[\d,]{0,24}\s*")
_POSITION: Final = re.compile(r"(-?\d+):(-?\d+)(?::-?\d+)?")
_RANGE: Final = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\]")
_FLAGS: Final = {"true": True, "false": False}
_THROTTLED: Final = "dispatchThrottled"
_OF_TOPIC: Final = ("topicCreationTimeStamp", "lastPublishTimeStamp", "lastOffloadSuccessTimeStamp")
_UNREADABLE_MAX: Final = 5
# What a column of a table can hold, and the year 9999.
_INTEGER_MAX: Final = 2**63 - 1
_MOMENT_MAX: Final = 253_402_300_799_000


class Reader:
    """Reads fields, and notes those that it cannot read."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []

    def integer(self, found: Json, name: str) -> int | None:
        """Returns an integer; None: there is none."""
        value = found.get(name)
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value.replace(",", ""))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and abs(value) <= _INTEGER_MAX:
            return value
        self._note(name, value)
        return None

    def moment(self, found: Json, name: str) -> int | None:
        """Returns a time in milliseconds since 1970 UTC; None: there is none."""
        value = self.integer(found, name)
        if value is not None and not 0 <= value <= _MOMENT_MAX:
            self._note(name, value)
            return None
        return value

    def rate(self, found: Json, name: str) -> float | None:
        """Returns a number; None: there is none."""
        value = found.get(name)
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            with suppress(ValueError):
                return float(value)
        self._note(name, value)
        return None

    def flag(self, found: Json, name: str) -> bool | None:
        """Returns a flag; None: there is none."""
        value = found.get(name)
        if isinstance(value, str):
            value = _FLAGS.get(value.lower(), value)
        if isinstance(value, bool):
            return value
        self._note(name, value)
        return None

    def text(self, found: Json, name: str) -> str | None:
        """Returns a text; None: there is none."""
        value = found.get(name)
        if isinstance(value, str):
            return value
        self._note(name, value)
        return None

    def position(self, found: Json, name: str) -> Position | None:
        """Returns a position; None: there is none."""
        value = found.get(name)
        if isinstance(value, str) and (match := _POSITION.fullmatch(value)):
            return (int(match[1]), int(match[2]))
        self._note(name, value)
        return None

    def list_of(self, found: Json, name: str) -> list[Any] | None:
        """Returns a list; None: there is none."""
        value = found.get(name)
        if isinstance(value, list):
            return value
        self._note(name, value)
        return None

    def _note(self, name: str, value: object) -> None:
        if value is not None and len(self.unreadable) < _UNREADABLE_MAX and name not in self.unreadable:
            self.unreadable.append(name)


def topic_of(kind: str, value: Json, topic: str | None, aggregated: bool) -> Topic:
    """Returns the statistics in a document of kind `stats` or `internal`."""
    read = Reader()
    if kind == "stats":
        found = value["subscriptions"].items()
        subscriptions = tuple(subscription_of(read, name, one) for name, one in found if isinstance(one, dict))
        latest_ms = max(read.moment(value, name) or 0 for name in _OF_TOPIC)
        published, size = read.integer(value, "msgInCounter"), read.integer(value, "storageSize")
        unreadable = tuple(read.unreadable)
        return Topic(
            topic,
            subscriptions,
            aggregated=aggregated,
            published=published,
            size=size,
            latest_ms=latest_ms,
            unreadable=unreadable,
        )
    cursors = {
        name: cursor_of(read, one)
        for name, one in value["cursors"].items()
        if isinstance(one, dict) and not isinstance(one, CutDict)
    }
    ledger, size = _ledger_of(read, value), read.integer(value, "totalSize")
    return Topic(topic, cursors=cursors, ledger=ledger, size=size, unreadable=tuple(read.unreadable))


def subscription_of(read: Reader, name: str, found: Json, connected: int | None = None) -> SubscriptionStats:
    """Returns one subscription.

    Args:
        read: notes what it cannot read.
        name: of the subscription.
        found: the object.
        connected: how many consumers are connected, if the object does not list them; None: not known.
    """
    consumers = found.get("consumers")
    listed = consumers if isinstance(consumers, list) else []
    mode = read.text(found, "keySharedMode")
    after = found.get("consumersAfterMarkDeletePosition")
    throttled = [read.integer(found, key) for key in found if key.startswith(_THROTTLED)]
    return SubscriptionStats(
        name=name,
        type=read.text(found, "type"),
        active_consumer=read.text(found, "activeConsumerName"),
        mode=mode,
        out_of_order=read.flag(found, "allowOutOfOrderDelivery"),
        consumers=tuple(
            _consumer_of(read, one, mode, at)
            for at, one in enumerate(listed, 1)
            if isinstance(one, dict) and _is_usable(one)
        ),
        cut=isinstance(found, CutDict),
        connected=connected,
        lists_consumers=isinstance(consumers, list),
        backlog=read.integer(found, "msgBacklog"),
        delayed=read.integer(found, "msgDelayed"),
        replay=read.integer(found, "msgInReplay"),
        unacked=read.integer(found, "unackedMessages"),
        blocked=read.flag(found, "blockedSubscriptionOnUnackedMsgs"),
        rate_out=read.rate(found, "msgRateOut"),
        sent=read.integer(found, "msgOutCounter"),
        last_sent_ms=read.moment(found, "lastConsumedTimestamp"),
        last_acked_ms=read.moment(found, "lastAckedTimestamp"),
        last_flow_ms=read.moment(found, "lastConsumedFlowTimestamp"),
        last_mark_delete_ms=read.moment(found, "lastMarkDeleteAdvancedTimestamp"),
        holes=read.integer(found, "nonContiguousDeletedMessagesRanges"),
        after_mark_delete=_positions(read, after) if isinstance(after, dict) else None,
        throttled=sum(one for one in throttled if one is not None) if throttled else None,
        rejected=read.integer(found, "filterRejectedMsgCount"),
        expired=read.integer(found, "totalMsgExpired"),
        rescheduled=read.integer(found, "filterRescheduledMsgCount"),
        rate_redeliver=read.rate(found, "msgRateRedeliver"),
        has_text_ranges=any(isinstance(one, dict) and bool(one.get("keyHashRanges")) for one in listed),
    )


def _positions(read: Reader, found: Json) -> dict[str, Position]:
    by_name = {name: read.position(found, name) for name in found}
    return {name: at for name, at in by_name.items() if at is not None}


def _is_usable(consumer: Json) -> bool:
    """Whether a consumer is whole, or whole up to what follows its counters: times, hash ranges and metadata."""
    return not isinstance(consumer, CutDict) or "connectedSince" in consumer


def _consumer_of(read: Reader, found: Json, mode: str | None, number: int) -> ConsumerStats:
    ranges = _range_list(found)
    draining = read.list_of(found, "drainingHashes")
    return ConsumerStats(
        name=read.text(found, "consumerName") or f"consumer {number} of the list",
        address=read.text(found, "address"),
        connected_since=read.text(found, "connectedSince"),
        client_version=read.text(found, "clientVersion"),
        permits=read.integer(found, "availablePermits"),
        unacked=read.integer(found, "unackedMessages"),
        messages_per_entry=read.integer(found, "avgMessagesPerEntry"),
        blocked=read.flag(found, "blockedConsumerOnUnackedMsgs"),
        rate_out=read.rate(found, "msgRateOut"),
        rate_acked=read.rate(found, "messageAckRate"),
        sent=read.integer(found, "msgOutCounter"),
        draining_count=read.integer(found, "drainingHashesCount"),
        draining_entries=read.integer(found, "drainingHashesUnackedMessages"),
        draining=None if draining is None else tuple(_draining(read, one) for one in draining if isinstance(one, dict)),
        # Thousands of consumers have a hundred each, which only STICKY subscriptions need.
        ranges=_ranges(ranges) if mode == STICKY and ranges is not None else None,
        ranges_count=None if ranges is None else len(ranges),
        read_position_when_joining=read.position(found, "readPositionWhenJoining"),
        last_acked_ms=read.moment(found, "lastAckedTimestamp"),
        last_sent_ms=read.moment(found, "lastConsumedTimestamp"),
        last_flow_ms=read.moment(found, "lastConsumedFlowTimestamp"),
    )


def _draining(read: Reader, found: Json) -> tuple[int, int, int]:
    hashed, entries, attempts = (read.integer(found, name) for name in ("hash", "unackMsgs", "blockedAttempts"))
    return (hashed or 0, entries or 0, attempts or 0)


def _range_list(found: Json) -> list[Any] | None:
    """The hash ranges as they are written; None: not reported, or cut off."""
    for name in ("keyHashRangeArrays", "keyHashRanges"):
        ranges = found.get(name)
        if isinstance(ranges, list):
            return None if isinstance(ranges, CutList) else ranges
    return None


def _ranges(written: list[Any]) -> tuple[tuple[int, int], ...]:
    """The hash ranges, which 3.x and the classic dispatcher write as texts."""
    pairs = [(one[0], one[1]) for one in written if _is_pair(one)]
    matches = (_RANGE.search(one) for one in written if isinstance(one, str))
    return (*pairs, *((int(match[1]), int(match[2])) for match in matches if match))


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(type(one) is int for one in pair)


def cursor_of(read: Reader, found: Json) -> CursorStats:
    """Returns one cursor."""
    return CursorStats(
        mark_delete=read.position(found, "markDeletePosition"),
        read_position=read.position(found, "readPosition"),
        waiting_read=read.flag(found, "waitingReadOp"),
        pending_reads=read.integer(found, "pendingReadOps"),
        have_pending_read=read.flag(found, "subscriptionHavePendingRead"),
        have_pending_replay_read=read.flag(found, "subscriptionHavePendingReplayRead"),
    )


def _ledger_of(read: Reader, value: Json) -> Ledger:
    ledgers = value.get("ledgers")
    listed = ledgers if isinstance(ledgers, list) and not isinstance(ledgers, CutList) else []
    entries = {
        ledger: read.integer(one, "entries") or 0
        for one in listed
        if isinstance(one, dict) and (ledger := read.integer(one, "ledgerId")) is not None
    }
    return Ledger(read.position(value, "lastConfirmedEntry"), entries)
