"""Checks a single row with one table of checks.

A check has a reason, a field, and the condition that refuses a row. Checks that depend on other rows are left to the
replay. `dispatch_audit.pipeline.trace.checks.good_rows` finds the rows of a batch that pass them all beyond doubt.

Absent optional fields are no fault, nor are values that a recorder cannot have: the `join` start of a refused consumer
has no number (and has ranges that the broker refused), and a `dispatch` end leaves out the fields of its start.

Source: TRACE_FORMAT, "Columns" and "Phases"; contract 1.1 (keyless messages), 2.4 (STICKY ranges).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dispatch_audit.pipeline.trace.checks.setting_values import is_possible

Values = Mapping[str, Any]
"""The values of a row by columns of `EVENT_SCHEMA`, as Python objects of its types; absent columns are null."""

Condition = Callable[[Values], bool]


class Fault(NamedTuple):
    """Why a row is refused.

    Attributes:
        reason: a code of `dispatch_audit.pipeline.trace.reasons.STRUCTURAL`.
        detail: the field at fault, with its value where that helps; None: there is none to name.
    """

    reason: str
    detail: str | None


class Check(NamedTuple):
    """One condition that refuses a row.

    Attributes:
        reason: a code of `dispatch_audit.pipeline.trace.reasons.STRUCTURAL`.
        field: the column at fault, or `column.field` of a struct.
        failed: whether a row is refused.
        shown: whether the detail has the value too.
        note: what the detail says besides.
    """

    reason: str
    field: str
    failed: Condition
    shown: bool = False
    note: str = ""

    def fault(self, row: Values) -> Fault:
        """Returns the fault of a row that fails the check."""
        value = f" = {row[self.field]}" if self.shown else ""
        return Fault(self.reason, f"{self.field}{value}{self.note}")


def _never(_: Values) -> bool:
    return False


def _value(row: Values, field: str) -> Any:
    name, *within = field.split(".")
    value = row.get(name)
    return value if not within or value is None else value.get(within[0])


def _missing(*fields: str, unless: Condition = _never) -> list[Check]:
    def check(field: str) -> Check:
        return Check("missing_field", field, lambda row: _value(row, field) is None and not unless(row))

    return [check(field) for field in fields]


def _impossible(field: str, failed: Callable[[Any], bool]) -> Check:
    """Returns the check of a value; an absent one passes."""
    return Check("impossible_value", field, lambda row: row.get(field) is not None and failed(row[field]), shown=True)


def _negative(*fields: str) -> list[Check]:
    return [_impossible(field, lambda value: bool(value < 0)) for field in fields]


def _not_among(field: str, words: Sequence[str]) -> Check:
    return _impossible(field, lambda value: value not in words)


def _name(field: str) -> Check:
    # U+FFFD replaces bytes that are not UTF-8: the true name is lost.
    return _impossible(field, lambda value: value == "" or "\ufffd" in value)


# The last microsecond that a timestamp of Python or Spark can show, 9999-12-31.
TS_US_MAX: Final = 253_402_300_799_999_999
# From 2015 to 2100.
_NANOSECONDS: Final = range(1_420_070_400 * 10**9, 4_102_444_800 * 10**9)
RESETS: Final = ("seek", "unload", "transfer", "other_type", "expire", "skip", "clear")
HASH_MAX: Final = 65_535


def _is_start(row: Values) -> bool:
    return bool(row.get("phase") == "start")


# The end of a dispatch does not repeat the fields of its start.
def _is_end(row: Values) -> bool:
    return not _is_start(row)


# Gaps and settings may concern all topics of their recorder, and what the recorder says of itself does.
def _may_lack_topic(row: Values) -> bool:
    return row.get("event") in ("gap", "settings", "heartbeat", "end")


# A keyless message may lack its key: the profile has the rule for the key that replaces it.
def _is_keyless(row: Values) -> bool:
    return bool(row.get("key_source") == "none")


def _is_no_position(position: Values | None) -> bool:
    if position is None:
        return True
    ids = (position.get("ledger_id"), position.get("entry_id"))
    return any(number is None or number < 0 for number in ids) or None in (position.get("ack_set") or ())


def _is_no_range(hashes: Values | None) -> bool:
    start, end = (None, None) if hashes is None else (hashes.get("start"), hashes.get("end"))
    return start is None or end is None or not 0 <= start <= end <= HASH_MAX


CONSUMERS_OF_SNAPSHOT: Final = ("consumers", "consumers_as_before")
_RANGES_OF_SNAPSHOT: Final = ("key_hash_ranges", "key_hash_ranges_changed")


def _is_range_pair(pair: Sequence[int | None] | None) -> bool:
    if pair is None or len(pair) != 2:
        return False
    start, end = pair
    return start is not None and end is not None and start <= end


def _is_no_consumer(consumer: Values | None) -> bool:
    if consumer is None or consumer.get("consumer") is None:
        return True
    in_order = all(_is_range_pair(found) for name in _RANGES_OF_SNAPSHOT for found in consumer.get(name) or ())
    draining = consumer.get("draining_hashes") or ()
    return not in_order or any(found is None or found.get("hash") is None for found in draining)


def _bad_value(row: Values) -> str | None:
    """The first name of `settings` that is empty or whose value has another kind than the setting."""
    settings: Values = row["settings"]
    return next((name for name, text in settings.items() if name == "" or not is_possible(name, text)), None)


_PHASE = Check("unknown_phase", "phase", lambda row: row.get("phase") not in ("start", "end", None), shown=True)
_ENTRY = [*_missing("ledger_id", "entry_id"), *_negative("ledger_id", "entry_id")]
_BATCH_SIZE = _impossible("batch_size", lambda size: bool(size < 1))
# 3.x and the classic dispatcher use 31 bits of the key's hash.
_HASH = _impossible("sticky_hash", lambda number: bool(number < 0))
_POSITIONS = Check("impossible_value", "positions", lambda row: any(map(_is_no_position, row.get("positions") or ())))
_RANGES = Check(
    "impossible_value",
    "ranges",
    lambda row: row.get("consumer") is not None and any(map(_is_no_range, row.get("ranges") or ())),
)
_STICKY_RANGES = Check(
    "missing_field",
    "ranges",
    lambda row: row.get("key_shared_mode") == "STICKY" and row.get("consumer") is not None and not row.get("ranges"),
)
_SNAPSHOT_ENDS = Check(
    "impossible_value",
    "snapshot.seq_begin",
    lambda row: bool(row["snapshot"]["seq_begin"] > row["snapshot"]["seq_end"]),
)
# A row that names no topic cannot name a subscription.
_TOPIC_OF_SUBSCRIPTION = Check(
    "missing_field", "topic", lambda row: row.get("topic") is None and row.get("subscription") is not None
)


def _snapshot_consumers(name: str) -> Check:
    return Check(
        "impossible_value",
        f"snapshot.{name}",
        lambda row: any(map(_is_no_consumer, row["snapshot"].get(name) or ())),
    )


ALL_EVENTS: Final[Sequence[Check]] = [
    *_missing("event", "seq", "ts_us"),
    *_missing("topic", unless=_may_lack_topic),
    *_negative("seq"),
    _impossible("ts_us", lambda moment: moment in _NANOSECONDS)._replace(
        note=", which looks like nanoseconds; ts_us is in microseconds"
    ),
    _impossible("ts_us", lambda moment: not 0 <= moment <= TS_US_MAX),
    _name("topic"),
]
"""Checked first, whatever the event."""

_OF_SUBSCRIPTION = [*_missing("subscription"), _name("subscription")]
_OF_CONSUMER = [*_OF_SUBSCRIPTION, *_missing("consumer")]

BY_EVENT: Final[Mapping[str, Sequence[Check]]] = {
    "publish": [
        *_ENTRY,
        *_missing("batch_size"),
        _BATCH_SIZE,
        *_missing("key", unless=_is_keyless),
        _HASH,
        *_negative("publish_time_ms", "size_bytes", "deliver_at_ms"),
    ],
    "dispatch": [
        _PHASE,
        *_OF_CONSUMER,
        *_ENTRY,
        *_missing("batch_size", unless=_is_end),
        _BATCH_SIZE,
        *_missing("key", unless=lambda row: _is_end(row) or _is_keyless(row)),
        _HASH,
        *_negative("redelivery_count"),
        Check("impossible_value", "ack_set", lambda row: None in (row.get("ack_set") or ())),
    ],
    "ack": [
        _PHASE,
        *_OF_CONSUMER,
        *_missing("ack_type"),
        _not_among("ack_type", ("individual", "cumulative")),
        Check("missing_field", "positions", lambda row: not row.get("positions")),
        _POSITIONS,
    ],
    # An empty list stands for everything that the consumer holds; an absent list is a fault.
    "redeliver": [*_OF_CONSUMER, *_missing("positions"), _POSITIONS],
    "flow": [*_OF_CONSUMER, *_missing("permits"), *_negative("permits")],
    "join": [
        _PHASE,
        *_OF_SUBSCRIPTION,
        *_missing("consumer", unless=_is_start),
        _not_among("key_shared_mode", ("AUTO_SPLIT", "STICKY")),
        _STICKY_RANGES,
        _RANGES,
    ],
    "leave": [_PHASE, *_OF_CONSUMER],
    "stats": [
        *_OF_SUBSCRIPTION,
        *_missing("snapshot", "snapshot.seq_begin", "snapshot.seq_end"),
        _SNAPSHOT_ENDS,
        *map(_snapshot_consumers, CONSUMERS_OF_SNAPSHOT),
    ],
    "gap": [
        _TOPIC_OF_SUBSCRIPTION,
        _name("subscription"),
        *_missing("seq_end", "dropped"),
        Check("impossible_value", "seq_end", lambda row: bool(row["seq_end"] < row["seq"]), shown=True),
        _impossible("dropped", lambda number: bool(number < 1)),
        Check("impossible_value", "dropped_events", lambda row: None in (row.get("dropped_events") or ())),
    ],
    "settings": [
        _TOPIC_OF_SUBSCRIPTION,
        _name("subscription"),
        *_missing("settings"),
        Check("impossible_value", "settings", lambda row: _bad_value(row) is not None, shown=True),
        *_negative("seq_begin"),
        Check(
            "impossible_value",
            "seq_begin",
            lambda row: row.get("seq_begin") is not None and bool(row["seq_begin"] > row["seq"]),
            shown=True,
        ),
    ],
    "reset": [_PHASE, *_OF_SUBSCRIPTION, *_missing("reason"), _not_among("reason", RESETS)],
    "hang": [
        _PHASE,
        *_OF_SUBSCRIPTION,
        *_missing("seq_begin", "begun_us"),
        *_negative("seq_begin"),
        _impossible("begun_us", lambda moment: not 0 <= moment <= TS_US_MAX),
    ],
    "heartbeat": [],
    "end": [],
}
"""The events of format 1, with the checks that each adds."""


def fault_of(row: Values) -> Fault | None:
    """Returns the first fault of a row; None: it is good."""
    for check in ALL_EVENTS:
        if check.failed(row):
            return check.fault(row)
    checks = BY_EVENT.get(row["event"])
    if checks is None:
        return Fault("unknown_event", f"event = {row['event']}")
    return next((check.fault(row) for check in checks if check.failed(row)), None)
