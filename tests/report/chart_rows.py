"""Rows of the tables of one small run, of which charts and pages draw everything there is.

One subscription and three consumers: red owns all hashes, blue joins and gets half of them, green joins and gets a
quarter. Red has no permits left; blue waits for red, and green for blue.
"""

from typing import Any

from table_rows import GROUP, ROWS

T0 = 1_767_225_600_000_000
SECOND = 1_000_000
# What a client may call its key, its consumer or its topic, to break out of the page.
HOSTILE = (
    '</script><script>alert(1)</script><img src=x onerror="alert(2)">',
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd",
    "quotes ' \" ` and &amp; {{ 7 * 7 }} </bdi></details>",
    "k" * 1_024,
    "\x1b[2J\x00\ud800".encode("utf-8", "replace").decode(),
)

Row = dict[str, Any]


def at(seconds: float) -> int:
    return T0 + int(seconds * SECOND)


def assignment(epoch: int, consumer: int, name: str, bounds: tuple[int, int], seconds: tuple[int, int | None]) -> Row:
    begin, end = seconds
    changes = ("join red", "join blue", "join green")
    return {
        **GROUP,
        "broker": None,
        "epoch": epoch,
        "last_epoch": None,
        "consumer": consumer,
        "consumer_name": name,
        "range_start": bounds[0],
        "range_end": bounds[1],
        "from_seq": begin * 100,
        "to_seq": None if end is None else end * 100,
        "from_ts_us": at(begin),
        "to_ts_us": None if end is None else at(end),
        "change": changes[epoch],
        "hashes_moved": (100, 50, 25)[epoch],
    }


ASSIGNMENTS = [
    assignment(0, 1, "red", (0, 99), (0, 10)),
    assignment(1, 1, "red", (0, 49), (10, None)),
    assignment(1, 2, "blue", (50, 99), (10, 20)),
    assignment(2, 2, "blue", (50, 74), (20, None)),
    assignment(2, 3, "green", (75, 99), (20, None)),
]


def span(sticky_hash: int, holder: int, begin: int, end: int | None) -> Row:
    return {
        **ROWS["draining"],
        "broker": None,
        "sticky_hash": sticky_hash,
        "holder": holder,
        "holder_name": ("red", "blue")[holder - 1],
        "new_owner": holder + 1,
        "new_owner_name": ("blue", "green")[holder - 1],
        "from_seq": begin * 100,
        "to_seq": None if end is None else end * 100,
        "from_ts_us": at(begin),
        "to_ts_us": None if end is None else at(end),
        "ended_by": None if end is None else "ack",
    }


DRAINING = [span(60, 1, 10, 14), span(70, 1, 10, 12), span(80, 2, 20, None)]


def interval(
    scope: str, cause: str, waiter: int | None, blocker: int | None, seconds: tuple[int, int], cost: float
) -> Row:
    names = {None: None, 1: "red", 2: "blue", 3: "green"}
    begin, end = seconds
    return {
        **ROWS["blocking"],
        "scope": scope,
        "cause": cause,
        "consumer": waiter,
        "consumer_name": names[waiter],
        "blocking_consumer": blocker,
        "blocking_consumer_name": names[blocker],
        "from_seq": begin * 100,
        "to_seq": end * 100,
        "from_ts_us": at(begin),
        "to_ts_us": at(end),
        "message_seconds": cost,
        "explanation": f"entries waited because of {cause}",
    }


BLOCKING = [
    interval("subscription", "look_ahead_limit", None, 1, (22, 30), 400.0),
    interval("hash", "look_ahead_limit", 2, None, (22, 30), 150.0),
    interval("consumer", "no_permits", 1, 1, (5, 30), 90.0),
    interval("hash", "no_permits", 1, 1, (5, 30), 90.0),
    interval("hash", "draining", 2, 1, (10, 14), 8.0),
    interval("hash", "draining", 3, 2, (12, 25), 6.0),
]

CONSUMERS = [
    {
        **ROWS["consumers"],
        "consumer": number,
        "consumer_name": name,
        "joined_at_us": at(joined),
        "left_at_us": None,
        "hash_share": hashes,
        "traffic_share": traffic,
    }
    for number, name, joined, hashes, traffic in (
        (1, "red", 0, 0.7, 0.2),
        (2, "blue", 10, 0.4, 0.5),
        (3, "green", 20, 0.25, 0.3),
    )
]

CAPACITY = [
    {
        **ROWS["capacity"],
        "from_ts_us": at(second - 5),
        "to_ts_us": at(second),
        "replay_size": size,
        "look_ahead_limit": 100,
        "growth_per_second": growth,
        "seconds_left": None if not growth else (100 - size) / growth,
    }
    for second, size, growth in ((5, 0, 0.0), (10, 40, 8.0), (15, 100, 0.0), (20, 30, 0.0), (25, 50, 4.0))
]

HOT_KEYS = [
    {**ROWS["hot_keys"], "sticky_hash": 40 + number, "key": key, "dispatched": 100 - number}
    for number, key in enumerate(HOSTILE)
]


def finding(number: int, key: str, severity: str = "violation") -> Row:
    """A finding on hash 60: blue is sent an entry while red still holds one."""
    return {
        **ROWS["violations"],
        "finding_id": f"{number:012x}",
        "severity": severity,
        "known_bug": "F2" if severity == "known_bug" else None,
        "broker": None,
        "sticky_hash": 60,
        "key": key,
        "consumer": 2,
        "consumer_name": "blue",
        "other_consumer": 1,
        "other_consumer_name": "red",
        "ledger_id": 7,
        "entry_id": number,
        "seq": 1_100 + number % 200,
        "ts_us": at(11),
        "detail": '{"other_seq": 900, "other_position": "7:1"}',
        "evidence": [f"seq 900: 7:1 dispatched to red {key}", f"seq 1100: 7:{number} dispatched to blue"],
        "explanation": f"entry 7:{number} of key {key} went to blue, although red still held 7:1",
    }


def tables(findings: list[Row]) -> dict[str, list[Row]]:
    """The rows of all tables but `runs`."""
    violations = sum(row["severity"] == "violation" for row in findings)
    metrics = {**ROWS["metrics"], "violations": violations, "known_bug": len(findings) - violations}
    return {
        "metrics": [metrics, {**ROWS["metrics"], "rule": "ownership", "violations": 0}],
        "violations": findings,
        "blocking": BLOCKING,
        "assignments": ASSIGNMENTS,
        "draining": DRAINING,
        "consumers": CONSUMERS,
        "capacity": CAPACITY,
        "hot_keys": HOT_KEYS,
        "coverage": [ROWS["coverage"]],
        "quarantine": [
            {"reason": "broken_json", "file": "events.jsonl", "line": line, "raw": raw, "detail": "no JSON"}
            for line, raw in enumerate(HOSTILE, start=1)
        ],
    }
