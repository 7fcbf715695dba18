"""Schemas of Arrow from those that Spark takes."""

import pyarrow as pa

_TYPES = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "LONG": pa.int64(),
}


def arrow_schema(columns: str) -> pa.Schema:
    """Returns the schema of columns that are given as DDL: `name TYPE, ...`, each of a type without parts."""
    return pa.schema([(name, _TYPES[of]) for name, of in (column.split() for column in columns.split(", "))])
