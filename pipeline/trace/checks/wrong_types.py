"""Names the first value of a row that its type cannot hold: `batch_size = "1", not a whole number of 32 bits`."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.typed_values import Fields, OtherTypeError, as_json, typed

_VALUE_MAX: Final = 60
_FLAT: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "true or false",
    pa.int32(): "a whole number of 32 bits",
    pa.int64(): "a whole number of 64 bits",
}


def wrong_value(fields: Fields, wanted: Mapping[str, pa.DataType]) -> str:
    """Returns the first field, in the order of `wanted`, that lost a value, with the value and its type.

    Args:
        fields: of a row, at least one of which the types do not hold.
        wanted: the types of the format.
    """
    found = (_wrong(value, wanted[name], name) for name in wanted for given, value in fields if given == name)
    return next(fault for fault in found if fault is not None)


def not_of_type(name: str, value: str, wanted: pa.DataType) -> str:
    """Returns the words for a value, given as JSON, that a type cannot hold."""
    shown = value if len(value) <= _VALUE_MAX else f"{value[: _VALUE_MAX - 3]}..."
    kind = _FLAT.get(wanted) or ("a list" if pa.types.is_list(wanted) else "an object")
    return f"{name} = {shown}, not {kind}"


def _wrong(value: Any, wanted: pa.DataType, name: str) -> str | None:
    try:
        if not typed(value, wanted).partial:
            return None
    except OtherTypeError:
        # An element of a list makes the whole list unusable.
        if not pa.types.is_list(wanted) or not isinstance(value, list) or isinstance(value, Fields):
            return not_of_type(name, as_json(value), wanted)
    if pa.types.is_list(wanted):
        of_elements = (_wrong(inner, wanted.value_type, f"{name}[{at}]") for at, inner in enumerate(value))
        return next((fault for fault in of_elements if fault is not None), None)
    types = {field.name: field.type for field in wanted}
    of_fields = (_wrong(inner, types[field], f"{name}.{field}") for field, inner in value if field in types)
    return next((fault for fault in of_fields if fault is not None), None)
