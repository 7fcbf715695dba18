"""Adds missing columns to tables of an older version, or refuses the table.

A nullable column can be added: older rows have NULL in it. Every other difference (a type, a column that this version
does not know, a column that must not be NULL) is refused, because rows of two versions would look alike and mean
different things.
"""

from collections.abc import Mapping

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.tables import Tables

_WAY_OUT = "choose another --out"


def migrate(tables: Tables, table: TableSchema, found: Mapping[str, str]) -> None:
    """Adds the missing columns to an existing table; does nothing if it has them all.

    Args:
        tables: the tables of the target.
        table: the schema of the table in this version.
        found: the types of its columns by name, as `Tables.columns` returns them.

    Raises:
        UsageError: it differs in more than missing nullable columns, or cannot be altered.
    """
    expected = {field.name: field.dataType.simpleString() for field in table.spark_schema}
    foreign = {name for name, type_name in found.items() if expected.get(name) != type_name}
    lacking = {column.name: column.nullable for column in table.columns if column.name not in found}
    refused = foreign | {name for name, nullable in lacking.items() if not nullable}
    if refused:
        raise UsageError(
            f"{tables.target} has a table {table.name} of another version of dispatch-audit, which differs in "
            f"{', '.join(sorted(refused))}",
            _WAY_OUT,
        )
    if not lacking:
        return
    try:
        tables.add_columns(table, [*lacking])
    except Exception as error:
        added = f"{', '.join(lacking)} to the table {table.name} in {tables.target}"
        raise UsageError(f"cannot add {added}: {reason_of(error)}", _WAY_OUT) from error
