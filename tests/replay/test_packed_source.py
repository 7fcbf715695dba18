import types
from typing import Any

import pytest

from dispatch_audit.pipeline.replay.packed_source import _tasks
from dispatch_audit.pipeline.replay.packing.packed_batch import Group
from dispatch_audit.pipeline.settings import load_settings


@pytest.mark.parametrize(("partitions", "tasks"), [("1", 4), ("200", 7), ("auto", 7)])
def test_there_are_no_more_tasks_than_groups(partitions: str, tasks: int) -> None:
    # Only Databricks says "auto"; the session of the tests refuses it, so it is a stand-in here.
    spark: Any = types.SimpleNamespace(conf=types.SimpleNamespace(get=lambda name: partitions))
    assert _tasks(spark, load_settings(), [Group("t", name) for name in "abcdefg"]) == tasks
