"""What the processes that run functions are started with."""

import os
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine import worker_pool
from dispatch_audit.pipeline.engine.functions import map_in_arrow
from dispatch_audit.pipeline.engine.worker_environment import WORKER_ENVIRONMENT
from dispatch_audit.pipeline.engine.worker_pool import in_process
from dispatch_audit.pipeline.engine.worker_process import Batches, Function


def _asking() -> Function:
    # Not of this module, which workers of Spark cannot import.
    def variables(batches: Batches) -> Batches:
        list(batches)
        values = {name: [os.environ.get(name)] for name in WORKER_ENVIRONMENT}
        yield pa.record_batch([pa.array(value, pa.string()) for value in values.values()], list(values))

    return variables


def _found(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


def test_processes_of_the_embedded_engine_have_it() -> None:
    (batch,) = in_process(_asking())(iter([]))
    assert _found(batch.to_pylist()) == WORKER_ENVIRONMENT


@pytest.mark.spark
def test_workers_of_a_local_spark_have_it(spark: SparkSession) -> None:
    schema = ", ".join(f"{name} STRING" for name in WORKER_ENVIRONMENT)
    rows = map_in_arrow(spark.range(1).coalesce(1), _asking(), schema).collect()
    assert _found([row.asDict() for row in rows]) == WORKER_ENVIRONMENT


def test_what_the_user_has_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the user's environment goes to the process as it is."""
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    monkeypatch.setattr(worker_pool, "_POOL", worker_pool._Pool())
    (batch,) = in_process(_asking())(iter([]))
    worker_pool._POOL.end()
    assert _found(batch.to_pylist())["MALLOC_TRIM_THRESHOLD_"] == "1000000"
