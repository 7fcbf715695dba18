"""Dumps for tests: what a broker prints, with what a test changes."""

import json
from typing import Any

from dispatch_audit.pipeline.statistics.diagnose import Input, Result, diagnose
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis

Json = dict[str, Any]

# All consumers have connected more than two periods of the broker's statistics before the last event, so that rates of
# 0 prove that nothing flows.
SINCE = "2025-06-15T14:00:00Z"
LAST_MS = 1750000000000
AN_HOUR_LATER_MS = LAST_MS + 3_600_000
FLOWING: Json = {"msgRateOut": 12.5}


def consumer(name: str, **changes: Any) -> Json:
    """One consumer of a broker of 4.x that waits for messages."""
    return {
        "msgRateOut": 0.0,
        "msgOutCounter": 100,
        "messageAckRate": 0.0,
        "consumerName": name,
        "availablePermits": 1000,
        "unackedMessages": 0,
        "avgMessagesPerEntry": 1,
        "blockedConsumerOnUnackedMsgs": False,
        "drainingHashesCount": 0,
        "drainingHashesUnackedMessages": 0,
        "drainingHashes": [],
        "address": f"/10.0.0.1:{name}",
        "connectedSince": SINCE,
        "lastAckedTimestamp": LAST_MS,
        "lastConsumedTimestamp": LAST_MS,
        "keyHashRangeArrays": [[1, 65535]],
        **changes,
    }


def draining(entries: int, attempts: int, count: int = 1) -> Json:
    """The fields of a consumer that holds draining hashes, each with `entries` and `attempts`."""
    hashes = [{"hash": 10 + at, "unackMsgs": entries, "blockedAttempts": attempts} for at in range(count)]
    counts = {"drainingHashesCount": count, "drainingHashesUnackedMessages": entries * count}
    return {**counts, "drainingHashes": hashes}


def stats(*consumers: Json, name: str = "ks", **changes: Any) -> Json:
    """The statistics of a topic with one subscription."""
    subscription = {
        "msgRateOut": 0.0,
        "msgOutCounter": 0,
        "messageAckRate": 0.0,
        "msgBacklog": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0,
        "msgInReplay": 0,
        "unackedMessages": sum(c["unackedMessages"] for c in consumers),
        "type": "Key_Shared",
        "lastConsumedTimestamp": LAST_MS,
        "lastAckedTimestamp": LAST_MS,
        "consumers": list(consumers),
        "allowOutOfOrderDelivery": False,
        "keySharedMode": "AUTO_SPLIT",
        "nonContiguousDeletedMessagesRanges": 0,
        **changes,
    }
    return {"msgInCounter": 300, "publishers": [], "subscriptions": {name: subscription}, "replication": {}}


def internal(
    read: str = "3:100", last: str = "3:99", name: str = "ks", *, waiting: bool, pending: int = 0, have: bool = True
) -> Json:
    """The internal statistics of a topic with one cursor."""
    cursor = {
        "markDeletePosition": "3:9",
        "readPosition": read,
        "waitingReadOp": waiting,
        "pendingReadOps": pending,
        "subscriptionHavePendingRead": have,
        "subscriptionHavePendingReplayRead": False,
    }
    return {"entriesAddedCounter": 100, "lastConfirmedEntry": last, "ledgers": [], "cursors": {name: cursor}}


def result_of(*texts: str | Json, version: str | None = None, taken_ms: int | None = AN_HOUR_LATER_MS) -> Result:
    """The result for files whose names have the time, those of each kind 10 s apart; None: no time is known."""
    inputs = []
    numbers = {"stats": 0, "stats-internal": 0}
    for text in texts:
        written = text if isinstance(text, str) else json.dumps(text, indent=2)
        name = "stats-internal" if '"cursors"' in written and '"subscriptions"' not in written else "stats"
        time = f"-{taken_ms + numbers[name] * 10_000}" if taken_ms is not None else ""
        numbers[name] += 1
        inputs.append(Input(f"{name}{numbers[name]}{time}.json", written))
    return diagnose(inputs, version)


def diagnosis_of(*texts: str | Json, version: str | None = None, taken_ms: int | None = AN_HOUR_LATER_MS) -> Diagnosis:
    """The diagnosis of the only subscription."""
    (diagnosis,) = result_of(*texts, version=version, taken_ms=taken_ms).diagnoses
    return diagnosis


def signs(diagnosis: Diagnosis) -> dict[str, str]:
    """The signs that were found, with their certainty."""
    return {reason.name: reason.certainty for reason in diagnosis.reasons}
