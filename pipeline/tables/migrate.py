"""Adds missing columns to tables of an older version, or refuses the table.

A nullable column can be added: older rows have NULL in it. Every other difference (a type, a column that this version
does not know, a column that must not be NULL) is refused, because rows of two versions would look alike and mean
different things.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.target import Target

_WAY_OUT = "choose another --out"


def migrate(spark: SparkSession, target: Target, table: TableSchema, found: Mapping[str, str]) -> None:
    """Adds the missing columns to an existing table; does nothing if it has them all.

    Args:
        spark: the session.
        target: where the table is.
        table: its schema in this version.
        found: the types of its columns by name, as `DataType.simpleString` writes them.

    Raises:
        UsageError: it differs in more than missing nullable columns, or cannot be altered.
    """
    expected = {field.name: field.dataType.simpleString() for field in table.spark_schema}
    foreign = {name for name, type_name in found.items() if expected.get(name) != type_name}
    lacking = {column.name: column.nullable for column in table.columns if column.name not in found}
    refused = foreign | {name for name, nullable in lacking.items() if not nullable}
    if refused:
        raise UsageError(
            f"{target} has a table {table.name} of another version of dispatch-audit, which differs in "
            f"{', '.join(sorted(refused))}",
            _WAY_OUT,
        )
    if lacking:
        _grow(spark, target, table, lacking)


def _grow(spark: SparkSession, target: Target, table: TableSchema, lacking: Mapping[str, bool]) -> None:
    identifier = target.identifier(table.name)
    try:
        # An empty append takes names, types and comments from the table's schema. Two runs that append at the same
        # time end with the same columns: Delta retries the second on the result of the first.
        spark.createDataFrame([], table.spark_schema).writeTo(identifier).option("mergeSchema", "true").append()
        properties = {row["key"].lower() for row in spark.sql(f"SHOW TBLPROPERTIES {identifier}").collect()}
        for name, check in table.constraints.items():
            if f"delta.constraints.{name}".lower() not in properties:
                spark.sql(f"ALTER TABLE {identifier} ADD CONSTRAINT {name} CHECK ({check})")
    except Exception as error:
        raise UsageError(
            f"cannot add {', '.join(lacking)} to the table {table.name} in {target}: {reason_of(error)}", _WAY_OUT
        ) from error
