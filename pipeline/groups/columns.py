"""Rows of one table, row by row or by column."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

Rows: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Mapping[str, Sequence[Any] | NDArray[Any]]
"""Rows of one table by column; all columns have the same length; without rows the mapping is empty."""


def columns_of(rows: Rows) -> Columns:
    """The rows by column; a column that a row leaves out is None there."""
    first = tuple(rows[0]) if rows else ()
    if all(tuple(row) == first for row in rows):
        # The usual case: taking the values of whole rows is more than twice as fast.
        return dict(zip(first, zip(*(row.values() for row in rows), strict=True), strict=True))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
