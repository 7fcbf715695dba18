"""Turns snapshots of a recording into typed statistics: each row is one subscription at one moment.

Columns have Pulsar's names in snake case, but for hash ranges and draining hashes. Ranges that are absent are those of
the snapshot before, as is all that consumers do not say that are "as before".

Source: TRACE_FORMAT, column `snapshot`.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dispatch_audit.pipeline.statistics.clock import UNKNOWN, Clock
from dispatch_audit.pipeline.statistics.model import KEY_SHARED, Ledger, Topic
from dispatch_audit.pipeline.statistics.parse import Reader, cursor_of, subscription_of

Json = Mapping[str, Any]

ROWS_MAX: Final = 100
"""The last snapshots of a subscription that are kept: the answer is about the end of a recording."""

_RANGES: Final = "key_hash_ranges"


class Snapshots:
    """The last snapshots of each subscription of a recording."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], deque[Json]] = {}
        self._former: dict[tuple[str, str], dict[int | None, Json]] = {}

    def add(self, row: Json) -> None:
        """Takes the next row of event `stats`."""
        group = (str(row.get("topic")), str(row.get("subscription")))
        former, snapshot, read = self._former.get(group, {}), row["snapshot"], Reader()
        consumers = _consumers_of(snapshot, "consumers")
        for one in _consumers_of(snapshot, "consumers_as_before"):
            consumers.append({**former.get(read.integer(one, "consumer"), {}), **one})
        for one in consumers:
            before = former.get(read.integer(one, "consumer"), {})
            if _RANGES in before and one.get(_RANGES, before[_RANGES]) is before[_RANGES]:
                one[_RANGES] = _ranges_after(before[_RANGES], one)
        self._former[group] = {read.integer(one, "consumer"): one for one in consumers}
        row = {**row, "snapshot": {**snapshot, "consumers": consumers}}
        self._rows.setdefault(group, deque(maxlen=ROWS_MAX)).append(row)

    def topics(self) -> Iterator[tuple[Topic, Clock]]:
        """Yields each snapshot as statistics of its topic, with the time at which it was written."""
        for (topic, name), rows in self._rows.items():
            for row in rows:
                ts_us = Reader().integer(row, "ts_us")
                at_ms = None if ts_us is None else Reader().moment({"at": ts_us // 1000}, "at")
                clock = UNKNOWN if at_ms is None else Clock(at_ms, "content", exact=True)
                yield _topic_of(topic, name, row["snapshot"]), clock


def _ranges_after(before: Any, consumer: Json) -> Any:
    """The ranges of a consumer that names only what came and what went since the snapshot before."""
    changed = consumer.get(f"{_RANGES}_changed") or []
    if not (isinstance(before, list) and isinstance(changed, list)):
        return before
    return [found for found in before if found not in changed] + [found for found in changed if found not in before]


def _topic_of(topic: str, name: str, snapshot: Json) -> Topic:
    read, found = Reader(), _renamed(snapshot)
    found.setdefault("type", KEY_SHARED)
    # Recorded only if it names somebody.
    found["consumersAfterMarkDeletePosition"] = snapshot.get("consumers_after_mark_delete_position") or {}
    found["consumers"] = [_consumer(one) for one in _consumers_of(snapshot, "consumers")]
    cursor, ledger = cursor_of(read, found), Ledger(read.position(found, "lastConfirmedEntry"))
    subscription = subscription_of(read, name, found)
    return Topic(topic, (subscription,), {name: cursor}, ledger, unreadable=tuple(read.unreadable))


def _consumers_of(snapshot: Json, name: str) -> list[dict[str, Any]]:
    consumers = snapshot.get(name)
    return [one for one in consumers if isinstance(one, dict)] if isinstance(consumers, list) else []


def _consumer(found: Json) -> dict[str, Any]:
    consumer = _renamed(found)
    # The recorder numbers consumers, so equal names stay different.
    consumer.setdefault("address", f"consumer {found.get('consumer')}")
    consumer["keyHashRangeArrays"] = consumer.pop("keyHashRanges", None)
    draining = found.get("draining_hashes")
    if isinstance(draining, list):
        hashes = [one for one in draining if isinstance(one, dict)]
        consumer["drainingHashes"] = [{**_renamed(one), "unackMsgs": one.get("unacked_messages")} for one in hashes]
        # A snapshot need not repeat what its list says.
        consumer.setdefault("drainingHashesCount", len(hashes))
        entries = [number for one in hashes if isinstance(number := one.get("unacked_messages"), int)]
        if len(entries) == len(hashes):
            consumer.setdefault("drainingHashesUnackedMessages", sum(entries))
    return consumer


def _renamed(found: Json) -> dict[str, Any]:
    return {re.sub("_([a-z])", lambda letter: letter[1].upper(), name): value for name, value in found.items()}
