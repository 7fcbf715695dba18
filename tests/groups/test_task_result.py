"""What a task of the replay hands back: the rows of several groups together."""

from typing import Any

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.plan import task_result as module
from dispatch_audit.pipeline.plan.replay_on_spark import by_group
from dispatch_audit.pipeline.plan.task_result import task_result
from dispatch_audit.pipeline.tables.payload import batches_in

_RULE = {"topic": ["t"], "subscription": ["s"], "rule": ["ownership"], "checked": [7]}
_NONE: dict[str, Any] = {name: [0] for name in ("violations", "permitted", "known_bug", "not_provable", "info")}


def _metrics(topic: str, **more: object) -> tuple[str, Columns]:
    return "metrics", {**_RULE, **_NONE, "topic": [topic], **{name: [value] for name, value in more.items()}}


def _state(payload: bytes) -> tuple[str, Columns]:
    return "state", {"topic": ["t"], "subscription": ["s"], "version": [1], "payload": [payload]}


def _handed_back(*found: tuple[str, Columns]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The table and rows of each payload."""
    return [
        (table, [row for rows in batches_in(payload) for row in rows.to_pylist()])
        for batch in task_result(found)
        for table, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def test_rows_of_several_groups_are_one_payload_and_absent_columns_are_null() -> None:
    ((table, rows),) = _handed_back(_metrics("a", completeness=0.5), _metrics("b"), _metrics("c", completeness=1.0))
    assert table == "metrics"
    assert [(row["topic"], row["completeness"]) for row in rows] == [("a", 0.5), ("b", None), ("c", 1.0)]


def test_a_state_does_not_wait_for_that_of_another_group() -> None:
    found = _handed_back(_state(b"1"), _metrics("a"), _state(b"2"))
    assert [(table, len(rows)) for table, rows in found] == [("state", 1), ("state", 1), ("metrics", 1)]


def test_only_so_many_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING_ROWS", 2)
    found = _handed_back(*(_metrics(topic) for topic in "abcde"))
    assert [[row["topic"] for row in rows] for _, rows in found] == [["a", "b", "c"], ["d", "e"]]


def test_only_so_many_bytes_leave_a_worker_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER_BYTES", 1)
    assert [batch.num_rows for batch in task_result([_state(b"1"), _state(b"2")])] == [1, 1]
    assert list(task_result([])) == []


def test_the_rows_of_a_group_are_told_from_those_of_others_across_batches() -> None:
    batches = [pa.record_batch([pa.array(groups, pa.int32())], ["group"]) for groups in ([1, 1, 4], [4], [], [4, 6, 6])]
    found = [
        (number, [row for rows in of_group for row in rows["group"].to_pylist()])
        for number, of_group in by_group(iter(batches))
    ]
    assert found == [(1, [1, 1]), (4, [4, 4, 4]), (6, [6, 6])]


def test_rows_that_nobody_asks_for_belong_to_their_group() -> None:
    batches = [pa.record_batch([pa.array([1, 1, 2], pa.int32())], ["group"])]
    assert [number for number, _ in by_group(iter(batches))] == [1, 2]
