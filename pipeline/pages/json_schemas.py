"""The JSON Schemas of format 1: of `trace.json`, and of a row in JSON Lines.

Types come from the schema of the readers and from the model of `trace.json`, words and bounds from the checks of rows.
What an event needs is written here once more, because the checks are functions; tests hold the two against each other.

A JSON Schema cannot compare two fields (`seq_end` and `seq` of a gap), and takes 6.0 for a whole number.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, LongType, MapType, StructType

from dispatch_audit.pipeline.contract.setting_kinds import setting_kinds
from dispatch_audit.pipeline.trace.checks.one_row import BY_EVENT, CONSUMERS_OF_SNAPSHOT, HASH_MAX, RESETS, TS_US_MAX
from dispatch_audit.pipeline.trace.manifest import TRACE_FORMAT, Manifest
from dispatch_audit.pipeline.trace.schema import JSON_SCHEMA

Schema = dict[str, Any]

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_NOT_NULL: Final[Schema] = {"not": {"type": "null"}}
_NUMBER_TEXT: Final = r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$"


def manifest_schema() -> str:
    """Returns the text of docs/schema/trace-1.schema.json."""
    schema = Manifest.model_json_schema()
    properties = {"trace_format": {"const": TRACE_FORMAT}, **schema["properties"]}
    of_kind = {"number": {"type": ["number", "null"]}, "switch": {"type": ["boolean", "null"]}}
    properties["settings"] |= {"properties": {name: of_kind[kind] for name, kind in sorted(setting_kinds().items())}}
    body = {**schema, "properties": properties, "required": ["trace_format", *schema["required"]]}
    return _text("trace.json of a dispatch trace, format 1", _without_titles(body))


def row_schema() -> str:
    """Returns the text of docs/schema/row-1.schema.json."""
    return _text(
        "A row of a dispatch trace, format 1, in JSON Lines",
        {
            "type": "object",
            "properties": {field.name: _nullable(field.dataType) for field in JSON_SCHEMA},
            "allOf": [
                _needs("event", "seq", "ts_us"),
                _with(event={"enum": list(BY_EVENT)}, topic=_NAME, seq=_FROM_0, key_b64=_BASE64),
                _with(ts_us={"minimum": 0, "maximum": TS_US_MAX}),
                _unless({"properties": {"event": {"enum": ["gap", "settings", "heartbeat", "end"]}}}, _needs("topic")),
                *(_if(_is("event", event), *needed) for event, needed in _OF_EVENT.items()),
            ],
        },
    )


def _text(title: str, schema: Mapping[str, Any]) -> str:
    return json.dumps({"$schema": _DRAFT, "title": title, **schema}, indent=1, ensure_ascii=False) + "\n"


def _without_titles(schema: Any) -> Any:
    """Returns a schema without the titles and comments that pydantic makes of the names of fields and of docstrings."""
    if isinstance(schema, list):
        return [_without_titles(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_titles(inner)
        for name, inner in schema.items()
        if name not in ("title", "description") or not isinstance(inner, str)
    }


def _nullable(kind: DataType) -> Schema:
    """Returns the schema of a column or nested field; each may be null."""
    if isinstance(kind, IntegerType | LongType):
        bits = 32 if isinstance(kind, IntegerType) else 64
        return {"type": ["integer", "null"], "minimum": -(2 ** (bits - 1)), "maximum": 2 ** (bits - 1) - 1}
    if isinstance(kind, BooleanType):
        return {"type": ["boolean", "null"]}
    if isinstance(kind, ArrayType):
        return {"type": ["array", "null"], "items": _nullable(kind.elementType)}
    if isinstance(kind, MapType):
        return {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
    if isinstance(kind, StructType):
        fields = {field.name: _nullable(field.dataType) for field in kind}
        return {"type": ["object", "null"], "properties": fields}
    return {"type": ["string", "null"]}


def _with(**properties: Schema) -> Schema:
    return {"properties": properties}


def _needs(*names: str) -> Schema:
    """Returns the schema of an object in which these fields are there and not null."""
    return {"required": list(names), "properties": dict.fromkeys(names, _NOT_NULL)}


def _is(name: str, value: str) -> Schema:
    return {"required": [name], "properties": {name: {"const": value}}}


def _if(condition: Schema, *then: Schema) -> Schema:
    return {"if": condition, "then": then[0] if len(then) == 1 else {"allOf": list(then)}}


def _unless(condition: Schema, needed: Schema) -> Schema:
    return {"if": condition, "else": needed}


_FROM_0: Final[Schema] = {"minimum": 0}
_FROM_1: Final[Schema] = {"minimum": 1}
# U+FFFD stands for bytes that are not UTF-8.
_NAME: Final[Schema] = {"minLength": 1, "pattern": "^[^\ufffd]*$"}
_DIGIT: Final = r"([A-Za-z0-9+/]\s*)"
_BASE64: Final[Schema] = {"pattern": rf"^\s*({_DIGIT}{{4}})*({_DIGIT}{{2}}(==)?|{_DIGIT}{{3}}=?)?$"}
_START: Final = _is("phase", "start")
_KEYLESS: Final = _is("key_source", "none")
_PHASE: Final = _with(phase={"enum": ["start", "end", None]})
_SUBSCRIPTION: Final[Schema] = {**_needs("subscription"), "allOf": [_with(subscription=_NAME)]}
_CONSUMER: Final[Schema] = {"allOf": [_SUBSCRIPTION, _needs("consumer")]}
_ENTRY: Final[Schema] = {
    "allOf": [_needs("ledger_id", "entry_id"), _with(ledger_id=_FROM_0, entry_id=_FROM_0, batch_size=_FROM_1)]
}
_KEY: Final = _unless(_KEYLESS, _needs("key_b64"))
_ACK_SET: Final[Schema] = {"items": _NOT_NULL}
_POSITIONS: Final = _with(
    positions={
        "items": {
            **_needs("ledger_id", "entry_id"),
            "allOf": [_NOT_NULL, _with(ledger_id=_FROM_0, entry_id=_FROM_0, ack_set=_ACK_SET)],
        }
    }
)
_HASH_RANGE: Final[Schema] = {
    **_needs("start", "end"),
    "allOf": [_NOT_NULL, _with(start=_FROM_0, end={"maximum": HASH_MAX})],
}
_PAIR: Final[Schema] = {"allOf": [_NOT_NULL], "minItems": 2, "maxItems": 2, "items": _NOT_NULL}
_SNAPSHOT_CONSUMER: Final[Schema] = {
    **_needs("consumer"),
    "allOf": [
        _NOT_NULL,
        _with(
            key_hash_ranges={"items": _PAIR},
            key_hash_ranges_changed={"items": _PAIR},
            draining_hashes={"items": {**_needs("hash"), "allOf": [_NOT_NULL]}},
        ),
    ],
}
_OF_ANY_TOPIC: Final = _if(_needs("subscription"), _needs("topic"))
_SETTING: Final[Mapping[str, Schema]] = {
    "number": {"anyOf": [{"type": ["number", "null"]}, {"type": "string", "pattern": _NUMBER_TEXT}]},
    "switch": {"enum": [True, False, None, "true", "false"]},
}
_SETTINGS: Final[Schema] = {
    "propertyNames": {"minLength": 1},
    "properties": {name: _SETTING[kind] for name, kind in sorted(setting_kinds().items())},
}

_OF_EVENT: Final[Mapping[str, list[Schema]]] = {
    "publish": [
        _ENTRY,
        _needs("batch_size"),
        _KEY,
        _with(sticky_hash=_FROM_0, publish_time_ms=_FROM_0, size_bytes=_FROM_0, deliver_at_ms=_FROM_0),
    ],
    "dispatch": [
        _PHASE,
        _CONSUMER,
        _ENTRY,
        _if(_START, _needs("batch_size"), _KEY),
        _with(sticky_hash=_FROM_0, redelivery_count=_FROM_0, ack_set=_ACK_SET),
    ],
    "ack": [
        _PHASE,
        _CONSUMER,
        _needs("ack_type", "positions"),
        _with(ack_type={"enum": ["individual", "cumulative"]}, positions={"minItems": 1}),
        _POSITIONS,
    ],
    "redeliver": [_CONSUMER, _needs("positions"), _POSITIONS],
    "flow": [_CONSUMER, _needs("permits"), _with(permits=_FROM_0)],
    "join": [
        _PHASE,
        _SUBSCRIPTION,
        _unless(_START, _needs("consumer")),
        _with(key_shared_mode={"enum": ["AUTO_SPLIT", "STICKY", None]}),
        # The broker refused a consumer that has no number, perhaps because of its ranges.
        _if(
            _needs("consumer"),
            _with(ranges={"items": _HASH_RANGE}),
            _if(_is("key_shared_mode", "STICKY"), _needs("ranges"), _with(ranges={"minItems": 1})),
        ),
    ],
    "leave": [_PHASE, _CONSUMER],
    "stats": [
        _SUBSCRIPTION,
        _needs("snapshot"),
        _with(
            snapshot={
                **_needs("seq_begin", "seq_end"),
                "allOf": [_with(**{name: {"items": _SNAPSHOT_CONSUMER} for name in CONSUMERS_OF_SNAPSHOT})],
            }
        ),
    ],
    "gap": [
        _OF_ANY_TOPIC,
        _needs("seq_end", "dropped"),
        _with(subscription=_NAME, dropped=_FROM_1, dropped_events={"items": _NOT_NULL}),
    ],
    "settings": [
        _OF_ANY_TOPIC,
        _needs("settings"),
        _with(subscription=_NAME, settings=_SETTINGS, seq_begin=_FROM_0),
    ],
    "reset": [_PHASE, _SUBSCRIPTION, _needs("reason"), _with(reason={"enum": list(RESETS)})],
    "hang": [
        _PHASE,
        _SUBSCRIPTION,
        _needs("seq_begin", "begun_us"),
        _with(seq_begin=_FROM_0, begun_us={"minimum": 0, "maximum": TS_US_MAX}),
    ],
}
"""What the rows of each event need besides, all of it; those that a recorder writes of itself need nothing."""
