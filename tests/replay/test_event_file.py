"""Files with the events of packed batches, and the references to them in staged rows."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from samples import SAMPLES

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.packing.narrow_events import encode_events
from dispatch_audit.pipeline.plan import event_file as module
from dispatch_audit.pipeline.plan.event_file import event_file, events_of
from dispatch_audit.pipeline.plan.packed_source import Reading
from dispatch_audit.pipeline.plan.place_on_spark import batches_of
from dispatch_audit.pipeline.plan.staged_batches import decoded
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import open_traces

_EVENTS = [number.to_bytes(8, "little") * 10_000 for number in range(3)]
_SMALL = b"\x01" + bytes(200)


def test_events_are_found_by_their_references(tmp_path: Path) -> None:
    with event_file(str(tmp_path / "new" / "ä")) as put:
        cells = [put(events) for events in _EVENTS]
    assert [events_of(cell) for cell in cells] == _EVENTS
    assert max(map(len, cells)) < 300
    (file,) = (tmp_path / "new" / "ä").iterdir()
    assert file.read_bytes() == b"".join(_EVENTS)


def test_each_task_writes_a_file_of_its_own(tmp_path: Path) -> None:
    with event_file(str(tmp_path)) as one, event_file(str(tmp_path)) as other:
        cells = [one(_EVENTS[0]), other(_EVENTS[1]), one(_EVENTS[2])]
    assert [events_of(cell) for cell in cells] == _EVENTS
    assert len(list(tmp_path.iterdir())) == 2


def test_small_events_stay_in_their_row_and_need_no_file(tmp_path: Path) -> None:
    with event_file(str(tmp_path)) as put:
        assert put(_SMALL) == _SMALL
    assert events_of(_SMALL) == _SMALL
    assert not list(tmp_path.iterdir())


def test_without_a_folder_all_events_stay_in_their_rows() -> None:
    with event_file(None) as put:
        assert [put(events) for events in _EVENTS] == _EVENTS


def test_events_stay_in_their_rows_where_no_file_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with event_file(str(tmp_path / "taken")) as put:
        assert [put(events) for events in _EVENTS] == _EVENTS


@pytest.fixture
def disk_of_100_kb() -> Iterator[None]:
    """No file may grow beyond: the write that would is cut short, and the next one fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("disk_of_100_kb")
def test_what_no_longer_fits_on_the_disk_stays_in_its_row(tmp_path: Path) -> None:
    with event_file(str(tmp_path)) as put:
        cells = [put(events) for events in _EVENTS]
    assert [len(cell) < 300 for cell in cells] == [True, False, False]
    assert [events_of(cell) for cell in cells] == _EVENTS


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    with event_file(str(tmp_path)) as put:
        cell = put(_EVENTS[0])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DispatchAuditError, match=f"{file} ends before the events"):
        events_of(cell)


@pytest.mark.spark
def test_a_read_trace_has_references_and_the_same_packed_batches(spark: SparkSession, tmp_path: Path) -> None:
    (trace,) = open_traces([SAMPLES / "heavy-churn-3.0.7"])
    reading = Reading(spark, trace, profile_for("3.0.7", {}), load_settings())
    found = []
    for name, files in (("files", str(tmp_path / "files")), ("rows", None)):

        def keep(frame: DataFrame, folder: str = str(tmp_path / f"staged-{name}")) -> DataFrame:
            frame.write.parquet(folder)
            return spark.read.schema(frame.schema).parquet(folder)

        batches = batches_of(reading.packed(keep, files))
        longest = batches.agg(sf.max(sf.length("events")).alias("longest")).collect()[0]["longest"]
        rows = batches.orderBy("topic", "subscription", "first_seq").collect()
        found.append((longest, [(encode_events(batch.events), batch.details) for batch in decoded(rows)]))
    (longest_of_files, of_files), (longest_of_rows, of_rows) = found
    assert of_files == of_rows
    assert longest_of_files < module._SMALL_BYTES < longest_of_rows
