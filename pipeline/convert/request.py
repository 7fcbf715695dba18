"""The request and the result of a conversion."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.target import Target, parse_target

Form = Literal["parquet", "delta"]

EVENTS: Final = "events"
"""The log below a folder or a URI; its name makes the folder a trace."""
QUARANTINE: Final = "quarantine"
"""What holds the refused rows, beside the log; its name is none of a log, so that it is no part of the trace."""

_TABLE: Final = re.compile(r"(\w+\.\w+)\.(\w+)", re.ASCII)
_SCHEMA: Final = re.compile(r"\w+\.\w+", re.ASCII)
_OPTION: Final = "--to"


@dataclass(frozen=True)
class Converted:
    """Where a conversion writes; `parse_converted` makes one.

    Attributes:
        target: the folder, the URI, or the schema of the catalog.
        events: name of the log, or the table, below it.
        quarantine: name of what holds the refused rows.
        form: of both.
    """

    target: Target
    events: str
    quarantine: str
    form: Form

    @property
    def trace(self) -> str:
        """What names the converted trace on the command line."""
        if self.target.local:
            return self.target.location
        return f"{self.target.location}{'.' if self.target.named else '/'}{self.events}"


@dataclass(frozen=True)
class ConvertRequest:
    """One conversion.

    Attributes:
        paths: one trace: a folder, a table, or logs that belong together.
        target: where it goes, as `parse_converted` reads it.
        form: of a folder; None: Parquet in a folder, Delta elsewhere.
        replace: whether an earlier conversion at the target is replaced.
        profile: name of the broker profile, where there is no `trace.json`.
        settings: what an audit would refuse.
    """

    paths: tuple[str, ...]
    target: str
    form: Form | None
    replace: bool
    profile: str | None
    settings: Settings


@dataclass(frozen=True)
class ConvertResult:
    """A finished conversion.

    Attributes:
        path: of the trace.
        trace: what names the converted trace.
        quarantine: what holds the refused rows; empty: there were none.
        form: of the converted log.
        topics: number of topics.
        files: number of files of the log; None: the catalog knows.
        events_in: rows read.
        events_converted: rows of the converted trace.
        events_quarantined: rows of the quarantine.
        has_manifest: whether `trace.json` went along; else an audit needs `--profile`.
    """

    path: str
    trace: str
    quarantine: str
    form: Form
    topics: int
    files: int | None
    events_in: int
    events_converted: int
    events_quarantined: int
    has_manifest: bool


def parse_converted(text: str, form: Form | None) -> Converted:
    """Returns where a conversion writes.

    Args:
        text: a folder, a URI, or `catalog.schema.table`.
        form: as of `ConvertRequest`.

    Raises:
        UsageError: `text` is empty, names a file or only a schema, or the form is not possible there.
    """
    is_folder = os.sep in text or Path(text).is_dir()
    if (found := _TABLE.fullmatch(text)) and not is_folder:
        events, quarantine = found[2], f"{found[2]}_{QUARANTINE}"
        target = Target(found[1], named=True)
    elif _SCHEMA.fullmatch(text) and not is_folder:
        raise UsageError(f"{text} names a schema and no table", f"pass {text}.TABLE, or ./{text} for a folder")
    else:
        target, events, quarantine = parse_target(text, _OPTION), EVENTS, QUARANTINE
    if form == "parquet" and not target.local:
        raise UsageError(f"what is written to {target} is a Delta table", "leave --as out, or pass a folder")
    return Converted(target, events, quarantine, form or ("parquet" if target.local else "delta"))
