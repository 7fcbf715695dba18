"""Translates Spark's errors about the input into one line each, with the file and the next step.

Spark reports an unreadable file as a failed job, wrapped differently by the classic client and by Connect. Both have
the error condition in the text (`[FAILED_READ_FILE.NO_HINT] ...`), so the text is matched. Other errors are raised as
they are.

Source: Spark 4.2, common/utils/src/main/resources/error/error-conditions.json.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from dispatch_audit.pipeline import errors
from dispatch_audit.pipeline.errors import DispatchAuditError, TraceError, UsageError
from dispatch_audit.pipeline.storage.options import without_values

_UNREADABLE = re.compile(r"\[FAILED_READ_FILE([.\w]*)\] Encountered error while reading file (\S+?)\.\s(.*)")
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w.$]+: )?(.*)$", re.MULTILINE)
_ABSENT = re.compile(r"^File \S+ does not exist$")
_NO_PATH = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")
_NO_TABLE = re.compile(
    r"\[(?:TABLE_OR_VIEW_NOT_FOUND|DELTA_TABLE_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|DELTA_MISSING_DELTA_TABLE"
    r"|REQUIRES_SINGLE_PART_NAMESPACE|CATALOG_NOT_FOUND|SCHEMA_NOT_FOUND)[.\w]*\] (.*)"
)
_NO_FILE_SYSTEM = re.compile(r'No FileSystem for scheme "?(\w+)"?')
_JAVA_CLASS = re.compile(r"^:?\s*(?:[a-z][\w]*\.)+\w+: ")
_NO_COLUMNS = re.compile(
    r"\[(?:UNABLE_TO_INFER_SCHEMA|CANNOT_MERGE_SCHEMAS|CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE|COLUMN_ALREADY_EXISTS"
    r"|DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION|PARQUET_TYPE_\w+|UNSUPPORTED_\w*TYPE\w*|DELTA_\w+)[.\w]*\] (.*)"
)
# An error of the audit that a worker raised, in the last line of its traceback. The embedded engine hands it to a
# function that reads the rows of another one as an error of its own.
_OWN = re.compile(r"^(?:dispatch_audit\.pipeline\.errors\.|RuntimeError: External error: )(\w+): (.*)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
WORKER_DIED = "Python worker exited unexpectedly"
"""How an engine reports that the process of a worker ended."""
_KILLED = re.compile(rf"{WORKER_DIED} \(exit code -9\)")
_MORE_MEMORY = (
    "a worker takes about 0.6 GB, and there is one for each core: give the machine or the container more memory, lower "
    "spark.chunk_rows, or audit a part (--topic, --sample), and run it again"
)


@contextmanager
def trace_errors(source: str = "the trace") -> Iterator[None]:
    """Raises Spark's errors about the input as errors of the audit; wrap every job that reads a trace.

    An error of the audit that a worker raised is raised as such.

    Args:
        source: name of the input, for errors of Spark that do not name it.

    Raises:
        UsageError: a path or a table does not exist, or Spark cannot reach it.
        TraceError: a file cannot be read.
    """
    try:
        yield
    except DispatchAuditError:
        raise
    except Exception as error:
        text = without_values(str(error))
        translated = _own(text) or _translated(text, source)
        if worker_killed(error):
            why = "a worker was killed, most likely because memory ran out (signal 9)"
            translated = DispatchAuditError(why, _MORE_MEMORY)
        if translated is None:
            raise
        raise translated from error


def worker_killed(error: Exception) -> bool:
    """Whether a job failed because the system killed the process of a worker: nothing that it read does that."""
    return bool(_KILLED.search(str(error)))


def worker_died(error: Exception) -> bool:
    """Whether a job failed because the process of a worker ended; damaged Parquet can make pyarrow end it."""
    return WORKER_DIED in str(error)


def columns_do_not_merge(error: Exception) -> bool:
    """Whether the files of a Parquet log have columns of one name and different types."""
    return "[CANNOT_MERGE_" in str(error)


def _own(text: str) -> DispatchAuditError | None:
    """Returns the error of the audit that a worker raised."""
    found = _OWN.search(text)
    kind = getattr(errors, found[1], None) if found else None
    if not (found and isinstance(kind, type) and issubclass(kind, DispatchAuditError)):
        return None
    message, _, way_out = found[2].rpartition("; ")
    return kind(message, way_out) if message else kind(found[2])


def _translated(text: str, source: str) -> DispatchAuditError | None:
    if found := _UNREADABLE.search(text):
        return _unreadable(found, text)
    if found := _NO_PATH.search(text):
        return UsageError(f"there is no trace at {plain_path(found[1])}", "check the path")
    if found := _NO_TABLE.search(text):
        return UsageError(f"there is no such table: {found[1]}", "check its name")
    if found := _NO_FILE_SYSTEM.search(text):
        return UsageError(f"Spark cannot read {found[1]}:/ paths", "add the connector's package to Spark")
    if found := _NO_COLUMNS.search(text):
        why = found[1].partition(" SQLSTATE")[0]
        return TraceError(f"cannot read {source}: {why}", "write the columns of docs/TRACE_FORMAT.md")
    return None


def _unreadable(found: re.Match[str], text: str) -> DispatchAuditError:
    condition, file, hint = found.groups()
    causes = _CAUSE.findall(text)
    # Spark reports a missing file when it reads its rows or, for Parquet, its columns.
    absent = condition == ".FILE_NOT_EXIST" or bool(causes and _ABSENT.search(causes[-1]))
    if absent and Path(plain_path(file)).exists():
        return errors.not_at_worker(plain_path(file))
    # The innermost cause describes the damage best, Spark's own hint second best.
    why = (causes[-1] if causes else hint.partition(" SQLSTATE")[0]).strip() or "it is damaged"
    return TraceError(f"cannot read {plain_path(file)}: {why}", "copy it again or leave it out")


def plain_path(uri: str) -> str:
    """Returns the path of a `file:` URI as people write it; other URIs stay as they are."""
    return unquote(re.sub(r"^file:(?://)?", "", uri)) if uri.startswith("file:") else uri


def reason_of(error: Exception) -> str:
    """Returns the message of an error on one line, without Java class, stack trace and SQLSTATE.

    Errors of Spark begin with their message, those of a worker end with it. PySpark does not convert Hadoop's errors:
    their first line names the call that failed, and their second line has the class of the exception and the message.
    """
    before, traceback, inner = str(error).rpartition(_TRACEBACK)
    if traceback:
        return next((line for line in inner.splitlines() if line[:1].strip()), before.strip())
    lines = str(error).splitlines() or [type(error).__name__]
    message = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    while _JAVA_CLASS.match(message):
        message = _JAVA_CLASS.sub("", message, count=1)
    return re.sub(r"\s*SQLSTATE: \w+\s*$", "", message).strip()
