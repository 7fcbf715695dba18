"""The page about the Delta tables: their columns, types and constraints."""

from collections.abc import Container, Iterator, Mapping

from dispatch_audit.pipeline.pages.markdown import table
from dispatch_audit.pipeline.tables.schemas import DIAGNOSES, TABLES
from dispatch_audit.pipeline.tables.table_schema import Column, TableSchema

_HEAD = """\
# Tables

<!-- Written by `make docs` from pipeline/tables/schemas.py: edit that instead. -->

Every audit writes these Delta tables but `diagnoses`, which `dispatch-audit diagnose --out` writes. Every row of an
audit begins with its `run_key` (`string`), which is left out below; `runs` has one row for each. An audit of the same
trace with the same settings replaces its rows. The [cookbook](COOKBOOK.md) has a query for each question of operators,
[OPERATIONS](OPERATIONS.md) says how to keep the tables and how to delete old runs.

A moment is two columns, one row below: microseconds since 1970 UTC as recorded (`ts_us`, `bigint`), and the timestamp
made of them (`ts`, UTC). An interval is `from_*` to `to_*`, inclusive; where `to_*` is NULL it was still open at the
end of the trace. Consumers are numbered as in the trace, because their names may be equal.
"""
_SHARED_BY = 5
"""Tables from which on a column that is the same in all of them is described once."""


def tables_page() -> str:
    """The text of docs/TABLES.md."""
    schemas = (*TABLES.values(), DIAGNOSES)
    overview = table(["table", "a row is"], ([f"[{one.name}](#{one.name})", one.comment] for one in schemas))
    having: dict[Column, list[str]] = {}
    for schema in schemas:
        for column in schema.columns:
            having.setdefault(column, []).append(schema.name)
    shared = {
        column: names for column, names in having.items() if len(names) >= _SHARED_BY and column.name != "run_key"
    }
    sections = (line for schema in schemas for line in _section(schema, shared))
    return "\n".join([_HEAD, *overview, *_shared_section(shared), *sections, ""])


def _shared_section(shared: Mapping[Column, list[str]]) -> Iterator[str]:
    yield from ("", "## Columns of several tables", "")
    rows = (
        [f"`{column.name}`", _type(column), _nullable(column), _escaped(column.comment), ", ".join(names)]
        for column, names in shared.items()
    )
    yield from table(["column", "type", "may be NULL", "meaning", "in"], rows)


def _section(schema: TableSchema, shared: Container[Column]) -> Iterator[str]:
    yield from ("", f"## {schema.name}", "")
    names = {column.name for column in schema.columns}
    rows = (
        [_named(column.name, names), _type(column), _nullable(column), _escaped(column.comment)]
        for column in schema.columns
        if column.name != "run_key" and column not in shared and f"{column.name}_us" not in names
    )
    yield from table(["column", "type", "may be NULL", "meaning"], rows)
    if schema.constraints:
        checks = (f"`{check}` ({name})" for name, check in schema.constraints.items())
        yield from ("", f"Checked when a row is written: {'; '.join(checks)}.")


def _type(column: Column) -> str:
    return f"`{column.type}`"


def _nullable(column: Column) -> str:
    return "yes" if column.nullable else ""


def _named(column: str, names: set[str]) -> str:
    """A column as the page names it: a moment with the timestamp that is made of it."""
    timestamp = column.removesuffix("_us")
    return f"`{column}`, `{timestamp}`" if timestamp != column and timestamp in names else f"`{column}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
