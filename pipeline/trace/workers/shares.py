"""Divides a trace into shares that workers read: parts of its files.

Tables of a catalog, URIs, and folders whose partitions hold values of columns are left to Spark, and so are Delta
tables whose rows depend on more than their files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from dispatch_audit.pipeline.trace.manifest import FILE_NAME
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange
from dispatch_audit.pipeline.trace.sources import JSON_ENDINGS, PARQUET_ENDING, Log, Trace

# A worker reads a share of this size in seconds, and several workers share a large file.
SHARE_BYTES: Final = 64 << 20
_UNCOMPRESSED: Final = ".jsonl"
# Reader version 2 allows other column names in the files, version 3 deleted rows in a file (Delta's protocol, "Column
# Mapping", "Deletion Vectors").
_PLAIN_READER: Final = 1


class Share(NamedTuple):
    """A part of a file.

    Attributes:
        kind: of its log.
        log: path of its log, for messages.
        path: the file.
        begin: of a plain JSON Lines file the first byte; of Parquet the first row group.
        step: of a plain JSON Lines file the first byte behind the share; of Parquet the distance of its row groups; 0:
            the whole file.
        seqs: the rows to read.
    """

    kind: Literal["json", "parquet", "delta"]
    log: str
    path: str
    begin: int = 0
    step: int = 0
    seqs: SeqRange = ALL


def shares_of(trace: Trace) -> list[Share] | None:
    """Returns the shares of a trace in the order of their files; None if workers cannot read one of its logs.

    Parts of a file follow each other, so that the lines of the parts before can be added up.
    """
    shares: list[Share] = []
    for log in trace.logs:
        files = _files(log)
        if files is None:
            return None
        shares += [share for file in files for share in _divided(log, file, trace.seqs)]
    return shares


def _divided(log: Log, file: Path, seqs: SeqRange) -> Iterator[Share]:
    size = file.stat().st_size
    if log.kind == "json":
        if not file.name.endswith(_UNCOMPRESSED):
            yield Share("json", log.path, str(file), seqs=seqs)
            return
        for begin in range(0, size, SHARE_BYTES):
            yield Share("json", log.path, str(file), begin, min(begin + SHARE_BYTES, size), seqs)
        return
    kind: Literal["parquet", "delta"] = "delta" if log.kind == "delta" else "parquet"
    count = max(size // SHARE_BYTES, 1)
    yield from (Share(kind, log.path, str(file), first, count, seqs) for first in range(count))


def _files(log: Log) -> list[Path] | None:
    path = Path(log.path)
    if not log.local or log.kind == "table":
        return None
    if log.kind == "delta":
        return _files_of_table(log.path)
    if path.is_file():
        return [path]
    endings = JSON_ENDINGS if log.kind == "json" else (PARQUET_ENDING,)
    # As in Spark, hidden files are not part of the log, unless their name holds the value of a partition column.
    children = [child for child in sorted(path.iterdir()) if child.name != FILE_NAME]
    files = [child for child in children if "=" in child.name or not child.name.startswith(("_", "."))]
    if log.kind == "json":
        files = [file for file in files if not file.is_file() or file.name.endswith(endings)]
    return files if all(_is_plain_file(file, endings) for file in files) else None


def _is_plain_file(path: Path, endings: tuple[str, ...]) -> bool:
    return path.is_file() and path.name.endswith(endings) and "=" not in path.name


def _files_of_table(path: str) -> list[Path] | None:
    """Returns the files of the latest version of a Delta table; None if its rows depend on more than its files."""
    try:
        table = DeltaTable(path)
        # The values of partition columns are in the log only.
        if table.protocol().min_reader_version != _PLAIN_READER or table.metadata().partition_columns:
            return None
        files = [Path(unquote(uri.removeprefix("file://"))) for uri in sorted(table.file_uris())]
    except (DeltaError, OSError):
        return None  # reading it as a table reports the error
    return files if all(map(Path.is_file, files)) else None
