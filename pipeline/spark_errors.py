"""Spark's errors about the input, as one line each that names the file and a way out.

Spark reports an unreadable file as a failed job, wrapped differently by the classic client and by Connect.
What is the same in both is the error condition in the text (`[FAILED_READ_FILE.NO_HINT] ...`), so the text
decides. Anything that is not about the input passes through unchanged.

Source: Spark 4.2, common/utils/src/main/resources/error/error-conditions.json.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from pipeline.errors import DispatchAuditError, TraceError, UsageError

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
_WORKER_DIED = "Python worker exited unexpectedly"


@contextmanager
def trace_errors(source: str = "the trace") -> Iterator[None]:
    """Turns Spark's errors about the input into ours; wrap every job that reads a trace.

    Args:
        source: what is read, where an error of Spark does not say.

    Raises:
        UsageError: a path or a table does not exist, or Spark cannot reach it.
        TraceError: a file cannot be read.
    """
    try:
        yield
    except DispatchAuditError:
        raise
    except Exception as error:
        ours = _translated(str(error), source)
        if ours is None:
            raise
        raise ours from error


def worker_died(error: Exception) -> bool:
    """Whether a job failed because the process of a worker ended; damaged Parquet can make pyarrow end it."""
    return _WORKER_DIED in str(error)


def columns_do_not_merge(error: Exception) -> bool:
    """Whether the files of a Parquet log have columns of one name and different types."""
    return "[CANNOT_MERGE_" in str(error)


def _translated(text: str, source: str) -> DispatchAuditError | None:
    if found := _UNREADABLE.search(text):
        return _unreadable(found, text)
    if found := _NO_PATH.search(text):
        return UsageError(f"there is no trace at {plain_path(found[1])}", "check the path")
    if found := _NO_TABLE.search(text):
        return UsageError(f"there is no such table: {found[1]}", "check its name")
    if found := _NO_FILE_SYSTEM.search(text):
        return UsageError(f"Spark cannot reach {found[1]}:/ paths", "add the connector's package to Spark")
    if found := _NO_COLUMNS.search(text):
        why = found[1].partition(" SQLSTATE")[0]
        return TraceError(f"cannot read {source}: {why}", "write its files with the columns of TRACE_FORMAT")
    return None


def _unreadable(found: re.Match[str], text: str) -> DispatchAuditError:
    condition, file, hint = found.groups()
    causes = _CAUSE.findall(text)
    # A file is missed when its rows are read, or, of Parquet, when its columns are asked for.
    absent = condition == ".FILE_NOT_EXIST" or bool(causes and _ABSENT.search(causes[-1]))
    if absent and Path(plain_path(file)).exists():
        way_out = "put it where every worker of the cluster sees it: on a shared file system or in object storage"
        return UsageError(f"a worker does not find {plain_path(file)}, which is here", way_out)
    # The innermost cause says what is wrong with the bytes; a hint of Spark's own is the next best.
    why = (causes[-1] if causes else hint.partition(" SQLSTATE")[0]).strip() or "it is damaged"
    return TraceError(f"cannot read {plain_path(file)}: {why}", "copy it again or leave it out")


def plain_path(uri: str) -> str:
    """A path as people write it, for the `file:` URI that Spark makes of it; other URIs stay as they are."""
    return unquote(re.sub(r"^file:(?://)?", "", uri)) if uri.startswith("file:") else uri


def reason_of(error: Exception) -> str:
    """What went wrong, on one line: no Java class, no stack trace, no SQLSTATE.

    Errors of Spark begin with their message. Those that come through the bridge to the JVM unconverted (all of
    Hadoop's) say which call failed, and have the message on the second line behind the class of the exception.
    """
    lines = str(error).splitlines() or [type(error).__name__]
    message = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    while _JAVA_CLASS.match(message):
        message = _JAVA_CLASS.sub("", message, count=1)
    return re.sub(r"\s*SQLSTATE: \w+\s*$", "", message).strip()
