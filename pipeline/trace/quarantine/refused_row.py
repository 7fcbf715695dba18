"""A refused row of a trace, as messages and reports name it."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class RefusedRow(NamedTuple):
    """A refused row.

    Attributes:
        reason: a code of `dispatch_audit.pipeline.trace.reasons`.
        detail: the field at fault with its value, or the contradiction; None: there is none to name.
        file: the file or table that holds the row.
        line: its line in the file, 1-based; None: rows of a table have none.
        raw: the row itself; None: it is not at hand.
    """

    reason: str
    detail: str | None
    file: str
    line: int | None
    raw: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "RefusedRow":
        """Returns the row that a mapping describes; keys that are no attributes are ignored."""
        return cls(**{name: row[name] for name in cls._fields if name in row})

    def place(self, folder: str = "") -> str:
        """Returns file and line; the file relative to the folder of the trace, if it is in that."""
        file = self.file.removeprefix(f"{folder.rstrip('/')}/") if folder else self.file
        return file if self.line is None else f"{file}, line {self.line}"

    @property
    def fault(self) -> str:
        """The reason, with its detail."""
        return self.reason if self.detail is None else f"{self.reason} ({self.detail})"

    def __str__(self) -> str:
        return f"{self.fault} in {self.place()}"
