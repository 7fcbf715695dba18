"""Checks single rows of a trace with one table of checks, in SQL.

A check has a reason, a field, and the condition that refuses a row. The conditions are tests for null and comparisons,
nested in a CASE over the event, so that a row costs only the checks of its event. Checks that depend on other rows are
left to the replay.

Absent optional fields are no fault, nor are values that a recorder cannot have: the `join` start of a refused consumer
has no number (and has ranges that the broker refused), and a `dispatch` end leaves out the fields of its start.

Source: TRACE_FORMAT, "Columns" and "Phases"; contract 1.1 (keyless messages), 2.4 (STICKY ranges).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA


@dataclass(frozen=True)
class Check:
    """One condition that refuses a row.

    Attributes:
        reason: a code of `dispatch_audit.pipeline.trace.reasons`.
        field: the column at fault.
        failed: SQL over the columns of `EVENT_SCHEMA`; true = refused, false or null = passed.
        shown: SQL of the detail; by default the name of the field.
    """

    reason: str
    field: str
    failed: str
    shown: str = ""


def _missing(*fields: str, unless: str = "false") -> list[Check]:
    return [Check("missing_field", field, f"{field} IS NULL AND NOT ({unless})") for field in fields]


def _impossible(field: str, failed: str) -> Check:
    return Check("impossible_value", field, failed, f"concat('{field} = ', cast({field} AS STRING))")


def _negative(*fields: str) -> list[Check]:
    return [_impossible(field, f"{field} < 0") for field in fields]


def _name(field: str) -> Check:
    # U+FFFD replaces bytes that are not UTF-8 (in columns only after these checks): the true name is lost.
    return _impossible(field, f"{field} = '' OR contains({field}, '\\uFFFD') OR NOT is_valid_utf8({field})")


# The last microsecond that a timestamp of Python or Spark can show, 9999-12-31.
TS_US_MAX = 253_402_300_799_999_999
RESETS = ("seek", "unload", "transfer", "expire", "skip", "clear")
_HASH_MAX = 65_535

_PHASE = Check("unknown_phase", "phase", "phase NOT IN ('start', 'end')", "concat('phase = ', phase)")
_ENTRY = [*_missing("ledger_id", "entry_id"), *_negative("ledger_id", "entry_id")]
_BATCH_SIZE = _impossible("batch_size", "batch_size < 1")
# A keyless message may lack its key: the profile has the rule for the key that replaces it.
_KEYLESS = "key_source <=> 'none'"
# The end of a dispatch does not repeat the fields of its start.
_DISPATCH_END = "NOT phase <=> 'start'"
_NULL_WORD = "exists({}, word -> word IS NULL)"
_POSITIONS = Check(
    "impossible_value",
    "positions",
    "exists(positions, p -> p IS NULL OR p.ledger_id IS NULL OR p.entry_id IS NULL"
    f" OR p.ledger_id < 0 OR p.entry_id < 0 OR {_NULL_WORD.format('p.ack_set')})",
)
_RANGES = Check(
    "impossible_value",
    "ranges",
    "consumer IS NOT NULL AND exists(ranges, r -> r IS NULL OR r.start IS NULL OR r.end IS NULL"
    f" OR r.start < 0 OR r.start > r.end OR r.end > {_HASH_MAX})",
)
_SNAPSHOT_CONSUMERS = Check(
    "impossible_value",
    "snapshot.consumers",
    "exists(snapshot.consumers, c -> c IS NULL OR c.consumer IS NULL"
    " OR exists(c.key_hash_ranges, r -> NOT coalesce(size(r) = 2 AND get(r, 0) <= get(r, 1), false))"
    " OR exists(c.draining_hashes, d -> d IS NULL OR d.hash IS NULL))",
)

ALL_EVENTS: Sequence[Check] = [
    *_missing("event", "seq", "ts_us", "topic"),
    *_negative("seq"),
    _impossible("ts_us", f"ts_us < 0 OR ts_us > {TS_US_MAX}"),
    _name("topic"),
]
"""Checked first, whatever the event."""

_OF_SUBSCRIPTION = [*_missing("subscription"), _name("subscription")]
_OF_CONSUMER = [*_OF_SUBSCRIPTION, *_missing("consumer")]

BY_EVENT: Mapping[str, Sequence[Check]] = {
    "publish": [
        *_ENTRY,
        *_missing("batch_size"),
        _BATCH_SIZE,
        *_missing("key", unless=_KEYLESS),
        *_negative("publish_time_ms", "size_bytes", "deliver_at_ms"),
    ],
    "dispatch": [
        _PHASE,
        *_OF_CONSUMER,
        *_ENTRY,
        *_missing("batch_size", unless=_DISPATCH_END),
        _BATCH_SIZE,
        *_missing("key", unless=f"{_DISPATCH_END} OR {_KEYLESS}"),
        *_negative("redelivery_count"),
        Check("impossible_value", "ack_set", _NULL_WORD.format("ack_set")),
    ],
    "ack": [
        _PHASE,
        *_OF_CONSUMER,
        *_missing("ack_type"),
        _impossible("ack_type", "ack_type NOT IN ('individual', 'cumulative')"),
        Check("missing_field", "positions", "positions IS NULL OR size(positions) = 0"),
        _POSITIONS,
    ],
    # An empty list stands for everything that the consumer holds; an absent list is a fault.
    "redeliver": [*_OF_CONSUMER, *_missing("positions"), _POSITIONS],
    "flow": [*_OF_CONSUMER, *_missing("permits"), *_negative("permits")],
    "join": [
        _PHASE,
        *_OF_SUBSCRIPTION,
        *_missing("consumer", unless="phase <=> 'start'"),
        _impossible("key_shared_mode", "key_shared_mode NOT IN ('AUTO_SPLIT', 'STICKY')"),
        Check(
            "missing_field",
            "ranges",
            "key_shared_mode = 'STICKY' AND consumer IS NOT NULL AND coalesce(size(ranges), 0) <= 0",
        ),
        _RANGES,
    ],
    "leave": [_PHASE, *_OF_CONSUMER],
    "stats": [
        *_OF_SUBSCRIPTION,
        *_missing("snapshot", "snapshot.seq_begin", "snapshot.seq_end"),
        Check("impossible_value", "snapshot.seq_begin", "snapshot.seq_begin > snapshot.seq_end"),
        _SNAPSHOT_CONSUMERS,
    ],
    "reset": [
        _PHASE,
        *_OF_SUBSCRIPTION,
        *_missing("reason"),
        _impossible("reason", f"reason NOT IN {RESETS}"),
    ],
}
"""The events of format 1, with the checks that each adds."""


def validated(rows: DataFrame) -> DataFrame:
    """Returns the rows with the result of their checks.

    Args:
        rows: the columns of `EVENT_SCHEMA`, `parse_reason` and `parse_detail`, and any others.

    Returns:
        `rows` with `refused` (a code of `dispatch_audit.pipeline.trace.reasons.STRUCTURAL`, null = good) and `detail`
        (the field at fault, with its value where that helps) in place of the two columns of the reader and of
        `key_b64`. The column is not called `reason`, which is a field of `leave` and `reset`.
    """
    others = [
        name for name in rows.columns if name not in {*EVENT_SCHEMA.names, "key_b64", "parse_reason", "parse_detail"}
    ]
    return rows.select(
        *EVENT_SCHEMA.names,
        sf.expr(_verdict_sql(by_reason=True)).alias("refused"),
        sf.expr(_verdict_sql(by_reason=False)).alias("detail"),
        *others,
    )


def _verdict_sql(*, by_reason: bool) -> str:
    """Returns one CASE over all checks, which yields their reasons or their details."""
    branches = " ".join(
        f"WHEN '{event}' THEN {_first_failed(checks, by_reason=by_reason)}" for event, checks in BY_EVENT.items()
    )
    unknown = "'unknown_event'" if by_reason else "concat('event = ', event)"
    general = _first_failed(ALL_EVENTS, by_reason=by_reason)
    by_event = f"CASE event {branches} ELSE {unknown} END"
    result = f"coalesce({general}, {by_event})"
    # A reason of the reader may have no detail; a detail of these checks would be about another reason.
    return f"coalesce(parse_reason, {result})" if by_reason else f"if(parse_reason IS NULL, {result}, parse_detail)"


def _first_failed(checks: Sequence[Check], *, by_reason: bool) -> str:
    cases = " ".join(
        f"WHEN {check.failed} THEN " + (f"'{check.reason}'" if by_reason else check.shown or f"'{check.field}'")
        for check in checks
    )
    return f"CASE {cases} END"
