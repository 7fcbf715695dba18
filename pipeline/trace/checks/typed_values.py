"""Converts values that a JSON parser returns to the types of the format.

A text field takes any value, as the text that the value has in JSON. Every other field takes values of its type only; a
field of another type becomes null, and so do nested fields, whose neighbours stay.
"""

import json
from typing import Any, Final, NamedTuple

import pyarrow as pa

_BITS: Final = {pa.int32(): 32, pa.int64(): 64}


class Fields(list[tuple[str, Any]]):
    """The fields of a JSON object in their order; a name may occur twice."""


class Number(str):
    """A number of a JSON text as it is written."""

    __slots__ = ()


def no_number(word: str) -> Number:
    """Returns NaN or Infinity, which parsers accept as numbers although they are not JSON."""
    # Quoted, they are not taken for base64.
    return Number(f'"{word}"')


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Fields, parse_int=Number, parse_float=Number, parse_constant=no_number
)
"""Parses JSON to the values that `typed` takes."""


class OtherTypeError(Exception):
    """Raised for a value that its type cannot hold; users never see it."""


class Typed(NamedTuple):
    """A value of a type of the format, and whether a nested field was lost because it has another type."""

    value: Any
    partial: bool = False


def typed(value: Any, wanted: pa.DataType) -> Typed:
    """Returns a value as the wanted type: a text, number, boolean, list, or a mapping for structs and maps.

    Args:
        value: null, a text, boolean or list, or `Fields` or `Number`.
        wanted: a type of the format.

    Raises:
        OtherTypeError: the type cannot hold the value.
    """
    if value is None:
        return Typed(None)
    if wanted == pa.string():
        return Typed(_as_text(value))
    if wanted == pa.bool_():
        return Typed(_of(bool, value))
    if wanted in _BITS:
        return Typed(_as_integer(value, _BITS[wanted]))
    return _nested(value, wanted)


def _nested(value: Any, wanted: pa.DataType) -> Typed:
    if pa.types.is_list(wanted):
        if isinstance(value, Fields):
            raise OtherTypeError
        elements = [typed(element, wanted.value_type) for element in _of(list, value)]
        return Typed([element.value for element in elements], any(element.partial for element in elements))
    if pa.types.is_map(wanted):
        return Typed({_as_text(name): None if inner is None else _as_text(inner) for name, inner in _of(Fields, value)})
    return typed_fields(_of(Fields, value), {field.name: field.type for field in wanted})


def typed_json(text: str, wanted: pa.DataType) -> Typed:
    """Returns the value of a JSON text as the wanted type.

    Raises:
        OtherTypeError: the type cannot hold the value.
        ValueError: the text is not JSON.
        RecursionError: it is nested too deeply.
    """
    return typed(DECODER.decode(text), wanted)


def typed_fields(fields: Fields, wanted: dict[str, pa.DataType]) -> Typed:
    """Returns the fields that `wanted` names, with their values in its types; of equal names the last one counts."""
    found: dict[str, Any] = {}
    partial = False
    for name, value in fields:
        if name in wanted:
            try:
                found[name], lost = typed(value, wanted[name])
            except OtherTypeError:
                lost = True
            partial |= lost
    return Typed({name: found[name] for name in wanted if name in found}, partial)


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise OtherTypeError
    return value


def _as_integer(value: Any, bits: int) -> int:
    digits = _of(Number, value)
    # Longer ones are beyond every type, and Python refuses to convert thousands of digits.
    if len(digits) > 20 or not digits.removeprefix("-").isdigit():
        raise OtherTypeError
    number = int(digits)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise OtherTypeError
    return number


def _as_text(value: Any) -> str:
    # Half of a surrogate pair is no character.
    text = value if isinstance(value, str) else _json(value)
    return text.encode(errors="replace").decode()


def as_json(value: Any) -> str:
    """Returns a parsed value as it is in JSON, a text with its quotes."""
    text = json.dumps(value, ensure_ascii=False) if type(value) is str else _json(value)
    return text.encode(errors="replace").decode()


def _json(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Fields):
        return "{" + ",".join(f"{json.dumps(name)}:{_json(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
