"""The rows of all tables as text, to compare two audits of one trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

# Of `runs`: times and the engine, which are no results.
_CIRCUMSTANCES: Final = ("started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine")

Tables: TypeAlias = Mapping[str, list[str]]


def rows_of_tables(target: Path) -> Tables:
    """Returns the rows of each table by its name, sorted, so that files do not matter."""
    tables = tables_of(None, parse_target(str(target)))
    return {name: sorted(map(_text, tables.query(name, "*"))) for name in TABLES}


def _text(row: Mapping[str, Any]) -> str:
    return str({name: value for name, value in row.items() if name not in _CIRCUMSTANCES})
