"""Writes a converted trace to a folder: workers write the files, which become a trace in one step.

FOLDER/trace.json
FOLDER/events/topic=.../*.parquet      with `_delta_log` beside the topics if it is a Delta table
FOLDER/quarantine/                     the refused rows, if there are any
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dispatch_audit.pipeline.convert.request import EVENTS, QUARANTINE, Converted
from dispatch_audit.pipeline.convert.topic_files import TOPIC_FILE_SCHEMA, TopicFile, TopicFiles
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.store_path import AnyPath, any_path
from dispatch_audit.pipeline.trace.manifest import FILE_NAME
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import Trace
from dispatch_audit.pipeline.trace.workers.good_columns import typed
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.tasks import evaluated

TOPIC: Final = "topic"
_COLUMNS: Final = tuple(EVENT_SCHEMA.names)
_IN_FILES: Final = tuple(name for name in _COLUMNS if name != TOPIC)
_READ_ROWS: Final = 1 << 14
_STEM_MAX: Final = 60


def refuse_filled(folder: AnyPath, *, replace: bool) -> None:
    """Refuses a folder that holds something, or holds more than an earlier conversion.

    Raises:
        UsageError: it does.
    """
    held = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not held:
        return
    if not replace:
        raise UsageError(f"{folder} is not empty", "choose another --to, or pass --replace")
    # What else is in it would be lost.
    others = [name for name in held if name not in (FILE_NAME, EVENTS, QUARANTINE)]
    if others or EVENTS not in held:
        raise UsageError(
            f"{folder} holds {(others or held)[0]}, which is no part of a conversion", "choose another --to"
        )


@dataclass(frozen=True)
class Made:
    """A log that was written.

    Attributes:
        topics: number of topics.
        files: number of files.
        rows: number of rows.
    """

    topics: int
    files: int
    rows: int


def write_log(spark: SparkSession, trace: Trace, converted: Converted, folder: Path) -> Made:
    """Writes the good rows of a trace below a folder; returns what was written.

    Raises:
        UsageError: the workers do not write where the driver reads, or cannot write.
        TraceError: a file cannot be read, or the name of a topic is too long.
    """
    log = folder / EVENTS
    log.mkdir()

    def write(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        try:
            for part in parts:
                yield from _written(log, part)
        except OSError as error:
            raise UsageError(f"cannot write below {converted.target}: {error.strerror}", "make room for it") from error

    found = evaluated(spark, trace, write, TOPIC_FILE_SCHEMA, lambda frame: frame.collect())
    files = [TopicFile(**row.asDict()) for row in found]
    absent = [file.path for file in files if not (log / file.path).is_file()]
    if absent:
        why = f"workers wrote to {converted.target} on their own disks, which the driver cannot read"
        raise UsageError(why, "choose a --to on a shared file system or in object storage")
    # Attempts that failed may have left files.
    named = {log / file.path for file in files}
    for file in log.rglob("*.parquet"):
        if file not in named:
            file.unlink()
    if converted.form == "delta":
        _commit(log, EVENT_SCHEMA, files, [TOPIC])
    return Made(len({file.topic for file in files} - {None}), len(files), sum(file.rows for file in files))


def _written(log: Path, part: Part) -> Iterator[pa.RecordBatch]:
    stem = re.sub(r"[^\w-]", "_", Path(part.file).name.partition(".")[0])[:_STEM_MAX]
    source = f"{stem}-{part.begin:015d}"
    files = TopicFiles(log, pa.schema([(name, ARROW_TYPES[name]) for name in _IN_FILES]))
    for found in part.read(_COLUMNS, _READ_ROWS):
        if found.good.num_rows:
            files.add(found.good.column(TOPIC), typed(found.good, _IN_FILES), source)
    done = list(files.done(source))
    if done:
        columns = [list(values) for values in zip(*done, strict=True)]
        yield pa.record_batch([pa.array(values) for values in columns], names=list(TopicFile._fields))


def write_quarantine(refused: DataFrame, converted: Converted, folder: Path) -> int:
    """Writes the refused rows of a trace below a folder; returns their number."""
    quarantine = folder / QUARANTINE
    refused.write.parquet(f"file://{quarantine}")
    files = sorted(quarantine.glob("*.parquet"))
    rows = [pq.read_metadata(file).num_rows for file in files]
    if converted.form == "delta":
        described = zip(files, rows, strict=True)
        _commit(quarantine, refused.schema, [_of_quarantine(file, number) for file, number in described], [])
    return sum(rows)


def _of_quarantine(file: Path, rows: int) -> TopicFile:
    return TopicFile(file.name, "", rows, file.stat().st_size, f'{{"numRecords": {rows}}}')


def copy_manifest(trace: Trace, folder: Path) -> bool:
    """Copies `trace.json` as it is, or what the starts of a broker have in common; returns whether there is one."""
    manifest = any_path(trace.path) / FILE_NAME
    if manifest.is_file():
        (folder / FILE_NAME).write_bytes(manifest.read_bytes())
        return True
    first = trace.logs[0].place
    if first is None or not (first.parent / FILE_NAME).is_file():
        return False
    claims = json.loads((first.parent / FILE_NAME).read_text(encoding="utf-8"))
    claims["complete_from_start"] = trace.manifest.complete_from_start
    (folder / FILE_NAME).write_text(json.dumps(claims, indent=1) + "\n")
    return True


def _commit(folder: Path, schema: StructType, files: list[TopicFile], partitions: list[str]) -> None:
    """Makes files a Delta table by one commit that names them."""
    columns = Schema.from_json(schema.json())
    action = partial(_action, partitions=partitions, written_ms=int(folder.stat().st_mtime * 1000))
    table = DeltaTable.create(folder, columns, partition_by=partitions)
    table.create_write_transaction([action(file) for file in files], "append", columns, partition_by=partitions)


def _action(file: TopicFile, partitions: list[str], written_ms: int) -> Any:
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=dict.fromkeys(partitions, file.topic),
        modification_time=written_ms,
        data_change=True,
        stats=file.statistics,
    )
