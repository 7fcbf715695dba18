"""Stores the log of a generated trace in another form than the Parquet files that the generator writes."""

import base64
import gzip
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import write_deltalake

Source = Literal["parquet", "delta", "json", "json.gz"]
"""Forms of a log; `events.SOURCE` is its folder."""

_ROWS = 1 << 14


def store_as(folder: Path, source: Source) -> None:
    """Replaces the Parquet files of a generated trace by another form of the same rows."""
    parquet = folder / "events.parquet"
    if source == "parquet":
        return
    stored = folder / f"events.{source}"
    if source == "delta":
        write_deltalake(stored, ds.dataset(parquet).scanner().to_reader())
    else:
        stored.mkdir()
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(partial(_as_lines, stored, source), sorted(parquet.glob("*.parquet"))))
    shutil.rmtree(parquet)


def _as_lines(folder: Path, source: Source, file: Path) -> None:
    if source == "json.gz":
        # As gzip's own default; Python's takes longer.
        with gzip.open(folder / f"{file.stem}.jsonl.gz", "wt", compresslevel=6) as packed:
            packed.writelines(_lines_of(file))
    else:
        with (folder / f"{file.stem}.jsonl").open("w") as plain:
            plain.writelines(_lines_of(file))


def _lines_of(file: Path) -> Iterator[str]:
    for batch in pq.ParquetFile(file).iter_batches(_ROWS):
        for row in batch.to_pylist():
            yield json.dumps(_recorded(row), separators=(",", ":")) + "\n"


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that a recorder writes: those with a value, and the key as base64."""
    key = row.pop("key")
    known = {name: value for name, value in row.items() if value is not None}
    return known if key is None else {**known, "key_b64": base64.b64encode(key).decode()}
