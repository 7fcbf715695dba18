"""Turns the statistics of a topic into rows of event `stats`.

Source: contract 7 for the names and for the versions that have them; TRACE_FORMAT, column `snapshot`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dispatch_audit.recording.admin.deleted_ranges import deleted_ranges
from dispatch_audit.recording.admin.stats_fields import OF_CONSUMER, OF_CURSOR, OF_LEDGER, OF_SUBSCRIPTION

KEY_SHARED: Final = "Key_Shared"

_OF_HASH: Final = {"hash": "hash", "unackMsgs": "unacked_messages", "blockedAttempts": "blocked_attempts"}

_RANGE: Final = re.compile(r"\[\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\]")

Json = Mapping[str, Any]


class ConsumerNumbers:
    """Numbers the consumers of a topic and subscription.

    The statistics have no identity of a consumer object. Its name, its address and the moment at which it connected
    stand for it: a consumer that connects again is another one, and gets another number.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, consumers: Sequence[Json]) -> list[int]:
        """Returns the numbers of the consumers of one answer, in their order."""
        seen: Counter[tuple[object, ...]] = Counter()
        found = []
        for consumer in consumers:
            own = tuple(consumer.get(name) for name in ("consumerName", "address", "connectedSince"))
            seen[own] += 1
            # Consumers of one connection may be equal in all of it; their order distinguishes them.
            found.append(self._numbers.setdefault((*own, seen[own]), len(self._numbers) + 1))
        return found


class LatestRanges:
    """The hash ranges of the consumers of a topic and subscription, as the last snapshot with them had them."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[list[int]]] = {}

    def leave_out(self, snapshot: dict[str, Any]) -> None:
        """Drops ranges that are those of the snapshot before: they are most of its bytes, and rarely change."""
        latest: dict[int, list[list[int]]] = {}
        for consumer in snapshot["consumers"]:
            number, ranges = consumer["consumer"], consumer.get("key_hash_ranges")
            if ranges is None:
                continue
            latest[number] = ranges
            if self._ranges.get(number) == ranges:
                del consumer["key_hash_ranges"]
        self._ranges = latest


def snapshot_of(subscription: Json, ledger: Json, name: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Returns the snapshot of a subscription, without `seq_begin` and `seq_end`.

    Args:
        subscription: of the statistics of its topic.
        ledger: the internal statistics of its topic; empty: they are not known.
        name: of the subscription.
        numbers: of its consumers, in their order.
    """
    snapshot = {**_renamed(subscription, OF_SUBSCRIPTION), **_renamed(ledger, OF_LEDGER)}
    if after := subscription.get("consumersAfterMarkDeletePosition"):
        snapshot["consumers_after_mark_delete_position"] = dict(after)
    cursor = (ledger.get("cursors") or {}).get(name) or {}
    snapshot |= _renamed(cursor, OF_CURSOR)
    if text := cursor.get("individuallyDeletedMessages"):
        snapshot["individually_deleted"] = deleted_ranges(text)
    consumers = subscription.get("consumers") or ()
    snapshot["consumers"] = [_consumer(found, number) for found, number in zip(consumers, numbers, strict=True)]
    return snapshot


def _consumer(found: Json, number: int) -> dict[str, Any]:
    consumer = {"consumer": number, **_renamed(found, OF_CONSUMER)}
    if (ranges := _ranges(found)) is not None:
        consumer["key_hash_ranges"] = ranges
    if (draining := found.get("drainingHashes")) is not None:
        consumer["draining_hashes"] = [_renamed(one, _OF_HASH) for one in draining]
    return consumer


def _ranges(found: Json) -> list[list[int]] | None:
    """Returns the hash ranges, which 3.x and the classic dispatcher write as texts."""
    if (pairs := found.get("keyHashRangeArrays")) is not None:
        return [[int(start), int(end)] for start, end in pairs]
    texts = found.get("keyHashRanges")
    if texts is None:
        return None
    # Of a text that is no pair of numbers nothing is known; the audit then reconstructs the ranges.
    pairs = [_RANGE.fullmatch(text) for text in texts]
    return [[int(pair[1]), int(pair[2])] for pair in pairs if pair] if all(pairs) else None


def _renamed(found: Json, names: Mapping[str, str]) -> dict[str, Any]:
    return {field: found[name] for name, field in names.items() if found.get(name) not in (None, "")}
