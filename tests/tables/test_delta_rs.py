"""What only delta-rs needs to be watched for: it is one writer of several, and not that of Delta's authors."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from table_rows import ROWS, columns
from ways import Way, by_path

from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.tables.payload import record_batch
from dispatch_audit.pipeline.tables.rows import ArrowRows, held_rows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.tables import ConflictError
from dispatch_audit.pipeline.tables.threads import at_one_time

WAY = Way(None, by_path)
METRICS = TABLES["metrics"]


def test_a_missing_value_is_refused_where_one_must_be(tmp_path: Path) -> None:
    tables = WAY.opened(tmp_path, "aaaa").tables
    batch = pa.RecordBatch.from_pylist([{"reason": "x"}], TABLES["quarantine"].arrow_schema)
    with pytest.raises(DispatchAuditError, match=r"^quarantine\.file must not be NULL$"):
        tables.append(TABLES["quarantine"], held_rows(TABLES["quarantine"], [batch]), "aaaa", 1)


@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_a_write_is_refused_during_which_another_attempt_wrote(tmp_path: Path, how: str) -> None:
    tables = WAY.opened(tmp_path, "aaaa").tables
    batch = record_batch("metrics", columns(ROWS["metrics"]))

    def meanwhile() -> Iterator[pa.RecordBatch]:
        # In a thread of its own, because delta-rs does not write while it reads a batch.
        at_one_time(lambda number: tables.append(METRICS, held_rows(METRICS, [batch]), "aaaa", number), [2])
        yield batch

    with pytest.raises(ConflictError):
        getattr(tables, how)(METRICS, ArrowRows(METRICS, meanwhile), "aaaa", 1)
    assert len(tables.query("metrics", "*")) == 1


def test_a_write_is_made_again_if_only_rows_of_other_runs_were_removed_meanwhile(tmp_path: Path) -> None:
    tables = WAY.opened(tmp_path, "aaaa").tables
    batch = record_batch("metrics", columns(ROWS["metrics"]))
    tables.append(METRICS, held_rows(METRICS, [batch]), "bbbb", 1)

    def meanwhile() -> Iterator[pa.RecordBatch]:
        at_one_time(lambda run_key: tables.delete("metrics", run_key), ["bbbb"])
        yield batch

    tables.append(METRICS, ArrowRows(METRICS, meanwhile), "aaaa", 1)
    assert [row["run_key"] for row in tables.query("metrics", "run_key")] == ["aaaa"]


def test_constraints_are_in_the_protocol_and_not_only_in_the_properties(tmp_path: Path) -> None:
    WAY.opened(tmp_path, "aaaa")
    for name in TABLES:
        protocol = DeltaTable(tmp_path / name).protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 3)
