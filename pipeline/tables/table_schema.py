"""The definition of a table, and its three forms: DDL, Spark schema and Arrow schema.

A table is defined once, as a `TableSchema`. Spark creates the table from its DDL, and delta-rs from its Spark schema,
which as JSON is the schema of Delta; the replay, which knows neither Spark nor Delta, fills its Arrow form. That form
lacks the columns that the writer adds: `run_key`, and the timestamps, which repeat the columns of microseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

RUN_KEY = "run_key"

ColumnType = Literal[
    "string", "bigint", "double", "boolean", "timestamp", "binary", "array<string>", "stages", "assumptions"
]

# The element of runs.stages: name of the stage, wall time in seconds, rows it produced.
_STAGES_DDL = "array<struct<stage:string,seconds:double,rows:bigint>>"
_SPARK_STAGE = StructType(
    [
        StructField("stage", StringType()),
        StructField("seconds", DoubleType()),
        StructField("rows", LongType()),
    ]
)
_ARROW_STAGE = pa.struct([("stage", pa.string()), ("seconds", pa.float64()), ("rows", pa.int64())])

# The element of violations.assumes: name of the setting, the value that is taken for it, and whose value that is.
_ASSUMPTION = ("setting", "value", "source")
_ASSUMPTIONS_DDL = f"array<struct<{','.join(f'{name}:string' for name in _ASSUMPTION)}>>"
_SPARK_ASSUMPTION = StructType([StructField(name, StringType()) for name in _ASSUMPTION])
_ARROW_ASSUMPTION = pa.struct([(name, pa.string()) for name in _ASSUMPTION])

_DDL = {"stages": _STAGES_DDL, "assumptions": _ASSUMPTIONS_DDL}
_SPARK_TYPES: dict[ColumnType, DataType] = {
    "string": StringType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "binary": BinaryType(),
    "array<string>": ArrayType(StringType()),
    "stages": ArrayType(_SPARK_STAGE),
    "assumptions": ArrayType(_SPARK_ASSUMPTION),
}
_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
    "stages": pa.list_(_ARROW_STAGE),
    "assumptions": pa.list_(_ARROW_ASSUMPTION),
}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: public: others rely on it.
        type: a type of Spark SQL, or `stages` or `assumptions`.
        comment: its meaning and unit; becomes the comment in Delta.
        nullable: whether a row may leave it out.
        derived_from: for a timestamp, the column of microseconds since 1970 UTC that it repeats.
    """

    name: str
    type: ColumnType
    comment: str
    nullable: bool = False
    derived_from: str | None = None


@dataclass(frozen=True)
class TableSchema:
    """One table.

    Attributes:
        name: public: others rely on it.
        comment: the meaning of a row; becomes the comment in Delta.
        columns: in the order of the table, `run_key` first.
        constraints: CHECK expressions by name. Delta refuses a row for which one is NULL, unlike the SQL
            standard.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    constraints: dict[str, str]

    @property
    def written_columns(self) -> tuple[Column, ...]:
        """The columns that the producer of a row fills: all but `run_key` and the derived timestamps."""
        return tuple(c for c in self.columns if c.name != RUN_KEY and c.derived_from is None)

    @property
    def without_timestamps(self) -> str:
        """The columns as SQL, but for the timestamps, which repeat others.

        pyarrow imports pandas to make a timestamp an object of Python, which takes 0.3 s.
        """
        return ", ".join(column.name for column in self.columns if column.derived_from is None)

    @cached_property
    def spark_schema(self) -> StructType:
        """The schema of the table as Spark reads it back."""
        return StructType([_spark_field(column) for column in self.columns])

    @cached_property
    def written_spark_schema(self) -> StructType:
        """The Spark form of `arrow_schema`, all nullable: Delta checks nullability on the write."""
        return StructType([StructField(c.name, _SPARK_TYPES[c.type]) for c in self.written_columns])

    @cached_property
    def stored_arrow_schema(self) -> pa.Schema:
        """All columns of the table as Arrow, with nullability."""
        return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], c.nullable) for c in self.columns])

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """`written_columns` as Arrow, with nullability."""
        return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], c.nullable) for c in self.written_columns])

    @cached_property
    def arrow_fields(self) -> Mapping[str, pa.Field]:
        """The fields of `arrow_schema` by name; a schema makes them anew whenever they are asked for."""
        return {field.name: field for field in self.arrow_schema}

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the table, in which Delta keeps its CHECK constraints."""
        return {f"delta.constraints.{name}": check for name, check in self.constraints.items()}

    def ddl(self, identifier: str) -> str:
        """Returns the statement that creates the table as `identifier` (quoted already).

        One statement makes one commit: Delta keeps CHECK constraints as table properties and accepts them here too
        (`ALTER TABLE ... ADD CONSTRAINT` would cost a commit and a scan for each). The table is partitioned by run, so
        that replacing a run only changes metadata and two runs that write at the same time do not conflict.
        """
        columns = ", ".join(
            f"{c.name} {_DDL.get(c.type, c.type)}{'' if c.nullable else ' NOT NULL'} COMMENT {_literal(c.comment)}"
            for c in self.columns
        )
        properties = ", ".join(f"'{name}' = {_literal(check)}" for name, check in self.properties.items())
        return (
            f"CREATE TABLE {identifier} ({columns}) USING DELTA PARTITIONED BY ({RUN_KEY}) "
            f"COMMENT {_literal(self.comment)} TBLPROPERTIES ({properties})"
        )


def _spark_field(column: Column) -> StructField:
    return StructField(column.name, _SPARK_TYPES[column.type], column.nullable, {"comment": column.comment})


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
