"""Reads a single line: the values of its row, and why it is refused.

If an object has a field twice, the last one counts. Bytes that are not UTF-8 become U+FFFD.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.keys import key_of
from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values, fault_of
from dispatch_audit.pipeline.trace.checks.typed_values import (
    DECODER,
    Fields,
    Number,
    Typed,
    no_number,
    typed_fields,
    typed_json,
)
from dispatch_audit.pipeline.trace.checks.wrong_types import wrong_value
from dispatch_audit.pipeline.trace.lines.layout import FIELDS
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

_FIELDS: Final[dict[str, pa.DataType]] = {name: ARROW_TYPES[name] for name in FIELDS}
# The only field that is a map; Arrow would also accept a list for it.
_MAP: Final = "consumers_after_mark_delete_position"
# Limits of parsers: JSON itself has none, but a row beyond them comes from no recorder.
_DEPTH_MAX: Final = 500
_DIGITS_MAX: Final = 1000


class OneLine(NamedTuple):
    """A line by itself.

    Attributes:
        values: by columns of `EVENT_SCHEMA`, as far as they are readable.
        fault: why the line is refused; None: it is a good row.
    """

    values: Values
    fault: Fault | None


def read_line(text: str) -> OneLine:
    """Returns the row of a line that is not blank."""
    fields = _fields_of(text)
    if isinstance(fields, Fault):
        return OneLine({}, fields)
    values, partial = typed_fields(fields, _FIELDS)
    key_text = values.pop("key_b64", None)
    if partial:
        return OneLine(values, Fault("wrong_type", wrong_value(fields, _FIELDS)))
    values["key"] = None if key_text is None else key_of(key_text)
    if key_text is not None and values["key"] is None:
        return OneLine(values, Fault("bad_key", f"key_b64 = {key_text}"))
    return OneLine(values, fault_of(values))


def snapshots_of(texts: Sequence[str]) -> list[Typed]:
    """Returns the snapshots in texts of one JSON object each."""
    try:
        return [Typed(snapshot) for snapshot in _converted(texts)]
    except (pa.ArrowException, OverflowError, ValueError):
        # A value of another type, or half of a surrogate pair.
        return [typed_json(text, ARROW_TYPES["snapshot"]) for text in texts]


def _converted(texts: Sequence[str]) -> list[Values]:
    """Returns the snapshots by Arrow's conversion, which is fast, and as strict except for an empty text or list."""
    found = [json.loads(text, parse_float=str, parse_constant=no_number) for text in texts]
    if any(isinstance(snapshot.get(_MAP), list) or '""' in text for snapshot, text in zip(found, texts, strict=True)):
        raise ValueError
    snapshots: list[Values] = pa.array(found, ARROW_TYPES["snapshot"]).to_pylist(maps_as_pydicts="strict")
    return snapshots


def _fields_of(text: str) -> Fields | Fault:
    """Returns the fields of the one object in a line, or why it is not exactly one."""
    if text.count("{") + text.count("[") > _DEPTH_MAX and _is_deep(text):
        return _broken(f"nested deeper than {_DEPTH_MAX} brackets")
    try:
        found = DECODER.decode(f"[{text}]")
    except RecursionError:
        return _broken(f"nested deeper than {_DEPTH_MAX} brackets")
    except ValueError:
        return _broken(_first_error(text))
    if len(found) > 1 and all(value is None or isinstance(value, Fields) for value in found):
        return _broken("several objects in one line")
    if len(found) != 1 or not isinstance(found[0], Fields):
        return _broken("not an object")
    too_long = any(isinstance(value, Number) and len(value) > _DIGITS_MAX for _, value in found[0])
    return _broken(f"a number of more than {_DIGITS_MAX} digits") if too_long else found[0]


def _broken(detail: str) -> Fault:
    return Fault("broken_json", detail)


def _first_error(text: str) -> str:
    """Returns the first error of a text that is not JSON, in the words of the parser."""
    try:
        DECODER.decode(text)
    except json.JSONDecodeError as error:
        return f"{error.msg.lower()} at character {error.pos + 1}".replace(" at at ", " at ")
    return "not JSON"


def _is_deep(text: str) -> bool:
    """Whether brackets are nested deeper than parsers go; brackets in texts do not count."""
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if depth > _DEPTH_MAX:
            return True
    return False
