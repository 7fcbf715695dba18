"""Logs that end in the middle of a row, as a crashed recorder or a full disk leaves them.

A broken last line is not enough: one that ends with a newline was written to its end, and is garbage like any
other. Spark drops newlines, so the file itself has to be looked at, which is done here for local files only
and only for those whose last line was refused. Behind a URI a cut off row stays `broken_json`.
"""

import gzip
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

_READ_BYTES = 1 << 20
# The beginning of a literal, or of what may follow the digits of a number.
_PART_OF_VALUE = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|[eE][+-]?")


@dataclass(frozen=True)
class TruncatedLog:
    """Where a log ends in the middle of a row."""

    file: str
    line: int


def truncated_rows(refused_rows: DataFrame) -> tuple[TruncatedLog, ...]:
    """Those of the refused rows in which a log ends.

    Args:
        refused_rows: of `pipeline.trace.quarantine.quarantine.refused_rows`.
    """
    last_lines = refused_rows.where((sf.col("reason") == "broken_json") & sf.col("last_line"))
    return tuple(
        TruncatedLog(row["file"], row["line"])
        for row in last_lines.select("file", "line", "raw").orderBy("file").collect()
        if begins_an_object(row["raw"]) and not _ends_with_newline(row["file"])
    )


def begins_an_object(text: str) -> bool:
    """Whether `text` is the beginning of a JSON object, but not all of it."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        # Integers stay as they are: Python converts none of thousands of digits.
        json.loads(text, parse_int=str)
    except RecursionError:
        return False
    except json.JSONDecodeError as error:
        rest = text[error.pos :].rstrip()
        in_string = error.msg.startswith(("Unterminated string", "Invalid \\"))
        return not rest or in_string or _PART_OF_VALUE.fullmatch(rest) is not None
    return False


def _ends_with_newline(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        # Not a file of this machine. Nobody can tell, so nothing is claimed.
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
