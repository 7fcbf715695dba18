"""Finds logs that end in the middle of a row, as a crashed recorder or a full disk leaves them.

A broken last line that ends with a newline was written completely, and is broken like any other. Spark drops newlines,
so the file itself is read here, but only a local file whose last line was refused. Behind a URI a truncated row stays
`broken_json`.
"""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.trace.lines.truncated import begins_an_object

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class TruncatedLog:
    """A log that ends in the middle of a row, and the line of that row."""

    file: str
    line: int


def truncated_rows(refused_rows: DataFrame) -> tuple[TruncatedLog, ...]:
    """Returns the refused rows at the end of a log that are truncated.

    Args:
        refused_rows: as `dispatch_audit.pipeline.trace.quarantine.quarantine.refused_rows` returns them.
    """
    last_lines = (sf.col("reason") == "broken_json") & sf.col("last_line")
    rows = refused_rows.where(last_lines | (sf.col("reason") == "cut_off"))
    return tuple(
        TruncatedLog(row["file"], row["line"])
        for row in rows.select("file", "line", "raw", "reason").orderBy("file").collect()
        if row["reason"] == "cut_off" or (begins_an_object(row["raw"]) and not _ends_with_newline(row["file"]))
    )


def _ends_with_newline(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        # The file is not on this machine, so it cannot be checked and counts as complete.
        return True
    last = b""
    if path.suffix == ".gz":
        with gzip.open(path) as stream:
            while chunk := stream.read(_READ_BYTES):
                last = chunk
    else:
        with path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            last = stream.read()
    return last.endswith(b"\n")
