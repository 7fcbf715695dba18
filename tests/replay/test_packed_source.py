import types
from typing import Any

import pytest

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.plan.packed_source import Reading
from dispatch_audit.pipeline.settings import load_settings


@pytest.mark.parametrize(
    ("partitions", "rows", "tasks"),
    [("1", 100, 2), ("1", 10_000_000, 4), ("2", 10_000_000, 7), ("200", 100, 7), ("auto", 100, 7)],
)
def test_the_replay_has_tasks_for_its_work_and_no_more_than_groups(partitions: str, rows: int, tasks: int) -> None:
    # Only Databricks says "auto"; the session of the tests refuses it, so it is a stand-in here.
    spark: Any = types.SimpleNamespace(conf=types.SimpleNamespace(get=lambda name: partitions))
    unused: Any = None
    reading = Reading(spark, unused, unused, load_settings())
    assert reading._tasks([Group("t", name) for name in "abcdefg"], rows) == tasks
