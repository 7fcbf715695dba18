"""The plan of the replay: what moves between machines, and how often."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.engine.functions import map_groups
from dispatch_audit.pipeline.engine.worker_process import Batches
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.plan.pack_on_spark import Packing, packed_publishes, packed_rows
from dispatch_audit.pipeline.plan.place_on_spark import Placed, batches_of, numbers_of, placed, placed_states
from dispatch_audit.pipeline.plan.replay_on_spark import replayed
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.recorders.recorders import Recorders, Term
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.workers.tasks import in_tasks

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("of_window", "moved"), [(False, False), (True, False), (False, True)])
def test_the_replay_of_staged_rows_has_one_exchange_and_one_sort(
    of_window: bool, moved: bool, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = profile_for("4.0.8", {})
    config = ReplayConfig(profile, "4.0.8", {}, skew_us=10_000, open_entries_max=1_000_000)
    groups = [Group("t", "s")]
    terms = (Term(0, 1, 9, first=1, until_us=5), Term(1, 1, 9, first=12))
    recorders = {"t": Recorders(("a", "b"), terms)} if moved else {}
    spark.createDataFrame([], STAGED_SCHEMA).write.parquet(str(tmp_path / "staged"))
    staged = spark.read.schema(STAGED_SCHEMA).parquet(str(tmp_path / "staged"))
    chunks = placed(spark, batches_of(staged), numbers_of(groups), recorders)
    if of_window:
        state = spark.createDataFrame([("t", "s", b"state")], "topic STRING, subscription STRING, payload BINARY")
        chunks = chunks.unionByName(placed_states(state, numbers_of(groups)))
        publishes = in_tasks(spark, _trace(tmp_path), packed_publishes({"t"}, Packing(profile, 100)), STAGED_SCHEMA)
        chunks = chunks.unionByName(placed(spark, batches_of(publishes), numbers_of(groups)))
    replayed(Placed(chunks, groups, 2, recorders), config, 10, keep_state=of_window).explain()
    plan = capsys.readouterr().out
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert len(re.findall(r"\bSort\b", plan)) == 1
    assert len(re.findall(r"\bMapInArrow\b", plan)) == (3 if of_window else 2 if moved else 1)


@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "by workers"])
def test_rows_are_packed_without_an_exchange(
    scanned: bool, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = packed_rows(Packing(profile_for("4.0.8", {}), 100))
    in_tasks(spark, _trace(tmp_path), work, STAGED_SCHEMA, scanned=scanned).explain()
    plan = capsys.readouterr().out
    assert "Exchange" not in plan
    assert len(re.findall(r"\bMapInArrow\b", plan)) == 1


def _trace(folder: Path) -> Trace:
    (folder / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (folder / "events.jsonl").write_text("{}\n")
    (trace,) = open_traces([folder])
    return trace


@pytest.mark.parametrize(("tasks", "groups_a_task"), [(9, 1), (3, 3)])
def test_each_task_gets_as_many_groups_each_in_its_order(tasks: int, groups_a_task: int, spark: SparkSession) -> None:
    rows = [(group, seq) for seq in (2, 0, 1) for group in range(9)]
    chunks = spark.createDataFrame(rows, "group INT, first_seq LONG")

    def seen(batches: Batches) -> Batches:
        found = [(row["group"], row["first_seq"]) for batch in batches for row in batch.to_pylist()]
        yield pa.record_batch([pa.array([json.dumps(found)])], ["rows"])

    calls = [
        json.loads(row["rows"])
        for row in map_groups(chunks, "group", "first_seq", tasks, seen, "rows STRING").collect()
    ]
    assert [len({group for group, _ in call}) for call in calls] == [groups_a_task] * tasks
    assert all(call == sorted(call) for call in calls)
    assert sorted(tuple(row) for call in calls for row in call) == sorted(rows)
