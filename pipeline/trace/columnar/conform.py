"""Converts Arrow columns of other types to the types of the format, where no value is lost.

An integer may have another width, a decimal of scale 0 may stand for an integer, bytes for a text, JSON text for a
nested column such as a snapshot, a struct for a map; fields of structs are matched by their names. Floats are not
accepted for integers: they cannot hold every `ts_us` or word of an ack set. An integer that does not fit becomes null.
Bytes that are not UTF-8 become U+FFFD, as in JSON.

A column or a nested field that is null throughout may have any type: a writer that saw no value has to invent one
(pyarrow writes null as INT32).
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.trace.checks.typed_values import OtherTypeError, typed_json

_BITS: Final = {pa.int32(): 32, pa.int64(): 64}
# delta-rs writes view types where it copies rows, for example out of a file from which other rows are deleted.
_OF_VIEW: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class OtherColumnError(Exception):
    """Raised for a column with a value that the type of the format cannot hold; users never see it."""


def conform(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns a column as the wanted type of the format; texts stay dictionary-encoded.

    Raises:
        OtherColumnError: a value has another type.
    """
    found = column.type
    if found in _OF_VIEW:
        return conform(column.cast(_OF_VIEW[found]), wanted)
    if pa.types.is_dictionary(found) and found.value_type == wanted:
        return _with_valid_words(column) if wanted == pa.string() else column
    if pa.types.is_dictionary(found):
        return conform(column.dictionary_decode(), wanted)
    if column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if pa.types.is_nested(wanted):
        return _nested(column, wanted)
    return _flat(column, wanted)


def _flat(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = column.type
    if wanted == pa.string():
        return _texts(column)
    if found == wanted:
        return column
    if wanted in _BITS:
        return _integers(column, wanted)
    if wanted == pa.binary() and (pa.types.is_large_binary(found) or pa.types.is_fixed_size_binary(found)):
        return column.cast(wanted)
    raise OtherColumnError


def _texts(column: pa.Array) -> pa.Array:
    found = column.type
    is_text = pa.types.is_string(found) or pa.types.is_large_string(found)
    if not (is_text or pa.types.is_binary(found) or pa.types.is_large_binary(found)):
        raise OtherColumnError
    try:
        texts = column.cast(pa.string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = column.cast(pa.large_binary()).to_pylist()
        return pa.array([value and value.decode(errors="replace") for value in values], pa.string())
    return texts


def _with_valid_words(column: pa.DictionaryArray) -> pa.Array:
    words = _texts(column.dictionary)
    return column if words is column.dictionary else pa.DictionaryArray.from_arrays(column.indices, words)


def _integers(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = column.type
    if not (pa.types.is_integer(found) or (pa.types.is_decimal(found) and found.scale == 0)):
        raise OtherColumnError
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        limit = 2 ** (_BITS[wanted] - 1)
        values = (None if value is None else int(value) for value in column.to_pylist())
        return pa.array([v if v is not None and -limit <= v < limit else None for v in values], wanted)


def _nested(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = column.type
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return pa.array([_of_json(text, wanted) for text in column.to_pylist()], wanted)
    if pa.types.is_map(wanted):
        return _map(column, wanted)
    if pa.types.is_list(wanted) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int32()))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        elements = conform(pc.list_flatten(column), wanted.value_type)
        return pa.ListArray.from_arrays(offsets, elements, type=wanted, mask=pc.is_null(column))
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        names = {field.name for field in found}
        fields = [
            conform(pc.struct_field(column, field.name), field.type)
            if field.name in names
            else pa.nulls(len(column), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=pc.is_null(column))
    raise OtherColumnError


def _map(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = column.type
    if pa.types.is_map(found) and (found.key_type, found.item_type) == (wanted.key_type, wanted.item_type):
        return column.cast(wanted)
    if not (pa.types.is_map(found) or pa.types.is_struct(found)):
        raise OtherColumnError
    values: list[dict[str, Any] | None] = column.to_pylist(maps_as_pydicts="strict")
    filled = (value and {name: inner for name, inner in value.items() if inner is not None} for value in values)
    try:
        return pa.array(list(filled), wanted)
    except pa.ArrowInvalid as error:
        raise OtherColumnError from error


def _of_json(text: str | None, wanted: pa.DataType) -> Any:
    try:
        return None if text is None else typed_json(text, wanted).value
    except (OtherTypeError, ValueError, RecursionError):
        return None
