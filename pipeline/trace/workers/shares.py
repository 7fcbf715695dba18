"""Divides the files of a log into shares that workers read.

Tables of a catalog and URIs that workers do not reach are left to a scan of Spark, and so are Delta tables whose rows
depend on more than their files and the values of partition columns.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import DeltaError

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.storage.delta import opened_table
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath
from dispatch_audit.pipeline.trace.line_limit import LINE_BYTES_MAX
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange
from dispatch_audit.pipeline.trace.sources import Log, files_of

# A worker reads a share of this size in seconds, and several workers share a large file.
SHARE_BYTES: Final = 64 << 20
_UNCOMPRESSED: Final = ".jsonl"
# Reader version 2 allows other column names in the files, version 3 deleted rows in a file (Delta's protocol, "Column
# Mapping", "Deletion Vectors").
_PLAIN_READER: Final = 1
_PARTITION: Final = "partition."
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
"""A null in the name of a folder, as Hive and Spark write it."""

Value = str | int | None
Values = tuple[tuple[str, Value], ...]


class Share(NamedTuple):
    """A part of a file.

    Attributes:
        kind: of its log.
        log: path of its log, for messages.
        path: the file.
        begin: of a plain JSON Lines file the first byte; of Parquet the first row group.
        step: of a plain JSON Lines file the first byte after the share; of Parquet the distance of its row groups; 0:
            the whole file.
        seqs: the rows to read.
        values: the values of partition columns, which are not in the file.
        size: its bytes in the file, about.
        store: the file, if it is in an object store.
        line_bytes_max: of JSON Lines the longest line that is read.
    """

    kind: Literal["json", "parquet", "delta"]
    log: str
    path: str
    begin: int = 0
    step: int = 0
    seqs: SeqRange = ALL
    values: Values = ()
    size: int = 0
    store: StorePath | None = None
    line_bytes_max: int = LINE_BYTES_MAX

    @property
    def place(self) -> AnyPath:
        """The file, to open it."""
        return self.store or Path(self.path)


def shares_of(log: Log, seqs: SeqRange, line_bytes_max: int = LINE_BYTES_MAX) -> list[Share] | None:
    """Returns the shares of a log in the order of its files; None if workers cannot read it.

    Shares of a file follow each other, so that the lines of the shares before can be added up.

    Raises:
        TraceError: the name of a folder gives a column a value of another type.
    """
    if log.place is None or log.kind == "table":
        return None
    files = _files_of_table(log) if log.kind == "delta" else [(file, _values_in(file, log)) for file in files_of(log)]
    if files is None:
        return None
    shares = [share for file, values in files for share in _divided(log, file, seqs, values)]
    return [share._replace(line_bytes_max=line_bytes_max) for share in shares]


def _divided(log: Log, file: AnyPath, seqs: SeqRange, values: Values) -> Iterator[Share]:
    size = file.stat().st_size
    store = file if isinstance(file, StorePath) else None
    if log.kind == "json":
        if not file.name.endswith(_UNCOMPRESSED):
            yield Share("json", log.path, str(file), seqs=seqs, size=size, store=store)
            return
        for begin in range(0, size, SHARE_BYTES):
            end = min(begin + SHARE_BYTES, size)
            yield Share("json", log.path, str(file), begin, end, seqs, size=end - begin, store=store)
        return
    kind: Literal["parquet", "delta"] = "delta" if log.kind == "delta" else "parquet"
    count = max(size // SHARE_BYTES, 1)
    part = size // count
    yield from (Share(kind, log.path, str(file), first, count, seqs, values, part, store) for first in range(count))


def _values_in(file: Any, log: Log) -> Values:
    """Returns the values of columns in the names of the folders between a log and its file (`topic=a`)."""
    folder = log.place
    if log.kind == "json" or folder is None or file == folder:
        return ()
    folders = (name.partition("=") for name in file.relative_to(folder).parts[:-1] if "=" in name)
    return tuple((name, _typed(name, None if text == NULL_FOLDER else unquote(text), log)) for name, _, text in folders)


def _typed(name: str, text: str | None, log: Log) -> Value:
    if text is None or not pa.types.is_integer(ARROW_TYPES.get(name, pa.string())):
        return text
    try:
        return int(text)
    except ValueError:
        raise TraceError(
            f"{log.path}: the folder {name}={text} gives column {name} a text", "name it by a number"
        ) from None


def _files_of_table(log: Log) -> list[tuple[AnyPath, Values]] | None:
    """Returns the files of the latest version of a Delta table; None if its rows depend on more than these."""
    folder = log.place
    assert folder is not None, "Spark reads the tables of a catalog"
    try:
        table = opened_table(folder)
        partitions = table.metadata().partition_columns
        if table.protocol().min_reader_version != _PLAIN_READER or not all(map(_is_text_or_number, partitions)):
            return None
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        if any("://" in action["path"] for action in actions):
            return None  # the files of another table, of which this one is a shallow clone
    except (DeltaError, OSError):
        return None  # reading it as a table reports the error
    files = [
        (
            _file(folder, unquote(action["path"]), action["size_bytes"]),
            tuple((name, action[_PARTITION + name]) for name in partitions),
        )
        for action in sorted(actions, key=lambda action: str(action["path"]))
    ]
    return files if all(file.is_file() for file, _ in files) else None


def _file(folder: AnyPath, name: str, size: int) -> AnyPath:
    return (folder / name).of_size(size) if isinstance(folder, StorePath) else folder / name


def _is_text_or_number(column: str) -> bool:
    kind = ARROW_TYPES.get(column, pa.string())
    return bool(kind == pa.string() or pa.types.is_integer(kind))
