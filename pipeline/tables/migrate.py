"""Tables of an older version: grown by the columns that they lack, or refused.

A column that a row may leave out says nothing about rows that were written before it was there, so they stay as they
are and have NULL in it. Whatever else differs (a type, a column that this version does not know, one that every row
must have) would make rows of two versions look alike that are not, and is refused.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from pipeline.errors import UsageError
from pipeline.spark_errors import reason_of
from pipeline.tables.table_schema import TableSchema
from pipeline.tables.target import Target

_WAY_OUT = "choose another --out"


def migrate(spark: SparkSession, target: Target, table: TableSchema, found: Mapping[str, str]) -> None:
    """Makes a table that is there the table of this version; asks nothing of it where it is that already.

    Args:
        spark: the session.
        target: where the table is.
        table: what it has to be.
        found: the columns that it has, by name their types as `DataType.simpleString` writes them.

    Raises:
        UsageError: it differs in more than columns that it lacks and a row may leave out, or cannot be altered.
    """
    expected = {field.name: field.dataType.simpleString() for field in table.spark_schema}
    foreign = {name for name, type_name in found.items() if expected.get(name) != type_name}
    lacking = {column.name: column.nullable for column in table.columns if column.name not in found}
    refused = foreign | {name for name, nullable in lacking.items() if not nullable}
    if refused:
        what = (
            f"a table {table.name} of another version of dispatch-audit, which differs in {', '.join(sorted(refused))}"
        )
        raise UsageError(f"{target} has {what}", _WAY_OUT)
    if lacking:
        _grow(spark, target, table, lacking)


def _grow(spark: SparkSession, target: Target, table: TableSchema, lacking: Mapping[str, bool]) -> None:
    identifier = target.identifier(table.name)
    try:
        # An append of nothing takes names, types and comments from the one place that states them. Two runs that do
        # it at one time end with the same columns: Delta lets the second try again on what the first made.
        spark.createDataFrame([], table.spark_schema).writeTo(identifier).option("mergeSchema", "true").append()
        kept = {row["key"].lower() for row in spark.sql(f"SHOW TBLPROPERTIES {identifier}").collect()}
        for name, check in table.constraints.items():
            if f"delta.constraints.{name}".lower() not in kept:
                spark.sql(f"ALTER TABLE {identifier} ADD CONSTRAINT {name} CHECK ({check})")
    except Exception as error:
        what = f"cannot add {', '.join(lacking)} to the table {table.name} in {target}"
        raise UsageError(f"{what}: {reason_of(error)}", _WAY_OUT) from error
