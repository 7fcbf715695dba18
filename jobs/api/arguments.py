"""Arguments that several functions take, and their defaults."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

DEFAULT_TARGET: Final = "dispatch-audit-tables"
"""Where the tables of an audit go, and where other calls look for them, unless a call says otherwise."""

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]
Moment = str | datetime
"""ISO 8601 text, or a datetime; one without a time zone is UTC."""
Progress = Callable[[str], None]
"""Is called with the name of each stage as it begins."""


def silent(stage: str) -> None:
    """Shows no progress."""


def texts(paths: Paths) -> tuple[str, ...]:
    """Returns the paths as texts."""
    if isinstance(paths, str | os.PathLike):
        return (os.fspath(paths),)
    return tuple(os.fspath(path) for path in paths)


def path_or_none(path: PathLike | None) -> Path | None:
    """Returns a path as `Path`."""
    return None if path is None else Path(path)


def moment_text(moment: Moment | None) -> str | None:
    """Returns a moment as the text that the command line takes."""
    if not isinstance(moment, datetime):
        return moment
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).isoformat()
