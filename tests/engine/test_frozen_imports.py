"""What a worker of Spark looks at for garbage between two tasks."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.frozen_imports import with_frozen_imports
from dispatch_audit.pipeline.engine.functions import map_in_arrow
from dispatch_audit.pipeline.engine.worker_process import Batches

_ROWS = pa.record_batch([pa.array([1, 2])], names=["n"])


class _Left:
    """Refers to itself, so that only the collector finds it."""

    def __init__(self) -> None:
        self.itself = self


def _same(batches: Batches) -> Batches:
    yield from batches


def _called() -> None:
    assert list(with_frozen_imports(_same)(iter([_ROWS]))) == [_ROWS]


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """The process of the tests goes on as it was."""
    yield
    gc.unfreeze()


def test_imports_are_frozen_at_the_first_call_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    monkeypatch.setitem(sys.modules, "imported_just_now", sys)
    _called()
    # At least the functions and classes of the packages that this module imports.
    assert gc.get_freeze_count() > 10_000


def test_what_calls_leave_behind_is_found_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imported_once_more", sys)
    _called()
    left = weakref.ref(_Left())
    _called()
    gc.collect()
    assert left() is None


@pytest.mark.spark
def test_workers_of_spark_freeze_their_imports(spark: SparkSession) -> None:
    def count(batches: Batches) -> Batches:
        list(batches)
        yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["frozen"])

    (row,) = map_in_arrow(spark.range(1).coalesce(1), count, "frozen LONG").collect()
    assert row["frozen"] > 10_000
