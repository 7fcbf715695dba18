"""Rows for the tests of tables and reports: one valid row a table, of which a test changes what it is about."""

from typing import Any

GROUP = {"topic": "persistent://shop/eu/orders-partition-0", "subscription": "workers"}
INTERVAL = {"from_seq": 10, "to_seq": 20, "from_ts_us": 1_000_000, "to_ts_us": 3_500_000}

ROWS: dict[str, dict[str, Any]] = {
    "metrics": {
        **GROUP,
        "rule": "single_holder",
        "checked": 100,
        "violations": 1,
        "permitted": 0,
        "known_bug": 0,
        "not_provable": 0,
        "info": 0,
    },
    "violations": {
        **GROUP,
        "rule": "single_holder",
        "severity": "violation",
        "sticky_hash": 4711,
        "key_id": -5,
        "ledger_id": 7,
        "entry_id": 120,
        "consumer": 2,
        "consumer_name": "blue",
        "other_consumer": 1,
        "other_consumer_name": "red",
        "epoch": 3,
        "seq": 20,
        "ts_us": 1_000_001,
        "evidence": ["10 dispatch 7:118 to red", "20 dispatch 7:120 to blue"],
        "explanation": "7:120 went to blue while red still held 7:118 of the same key",
    },
    "blocking": {
        **GROUP,
        **INTERVAL,
        "scope": "hash",
        "cause": "draining",
        "sticky_hash": 4711,
        "consumer": 2,
        "consumer_name": "blue",
        "blocking_consumer": 1,
        "blocking_consumer_name": "red",
        "entries_waiting": 4,
        "message_seconds": 6.25,
        "root_positions": ["7:118"],
        "ended_by": "ack",
    },
    "assignments": {
        **GROUP,
        **INTERVAL,
        "epoch": 3,
        "consumer": 2,
        "consumer_name": "blue",
        "range_start": 0,
        "range_end": 32767,
        "change": "join",
        "hashes_moved": 32768,
    },
    "draining": {
        **GROUP,
        **INTERVAL,
        "sticky_hash": 4711,
        "holder": 1,
        "new_owner": 2,
        "entries_at_start": 3,
        "ended_by": "ack",
    },
    "consumers": {**GROUP, "consumer": 2, "joined_at_us": 1_000_000, "dispatched": 9, "acked": 8},
    "quarantine": {"reason": "broken_json", "file": "events.jsonl", "line": 3, "raw": "{"},
    "runs": {
        "verdict": "violation",
        "completeness": 1.0,
        "events_in": 100,
        "events_audited": 99,
        "events_quarantined": 1,
        "profile": "pulsar-4.0.7",
        "pulsar_version": "4.0.8",
        "inputs": ["traces/night"],
        "settings": "{}",
        "code_version": "0.1.0",
        "from_ts_us": 1_000_000,
        "to_ts_us": 5_000_000,
        "started_at_us": 9_000_000,
        "ended_at_us": 9_500_000,
        "stages": [{"stage": "replay", "seconds": 0.5, "rows": 100}],
    },
}


def columns(*rows: dict[str, Any]) -> dict[str, list[Any]]:
    """Rows as columns, which is how the tables take them."""
    return {name: [row.get(name) for row in rows] for name in {name: None for row in rows for name in row}}
