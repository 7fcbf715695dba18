"""Recorded traces as Parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from arrow_rows import batch_of
from recorded import RECORDINGS, rows_in


def as_parquet(name: str, folder: Path) -> Path:
    """A recorded trace with its logs as Parquet files of several row groups."""
    folder.mkdir(parents=True)
    recorded = RECORDINGS / name
    (folder / "trace.json").write_text((recorded / "trace.json").read_text())
    for log in recorded.glob("*.jsonl.gz"):
        if "oracle" not in log.name:
            path = folder / f"{log.name.partition('.')[0]}.parquet"
            pq.write_table(pa.Table.from_batches([batch_of(rows_in(log))]), path, row_group_size=500)
    return folder
