"""The order in which the groups of a task come to their function on the embedded engine."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.engine.functions import rows_in_order


def _batch(rows: Sequence[tuple[int, int]], payload: bytes) -> pa.RecordBatch:
    groups, seqs = [group for group, _ in rows], [seq for _, seq in rows]
    columns = [pa.array(groups, pa.int32()), pa.array(seqs, pa.int64()), pa.array([payload] * len(rows), pa.binary())]
    return pa.record_batch(columns, names=["group", "first_seq", "events"])


def _handed_over(size: int) -> list[list[tuple[int, int, bytes]]]:
    batches = [_batch([(1, 5), (0, 1)], b"a" * size), _batch([], b""), _batch([(1, 5), (1, 3), (0, 7)], b"b" * size)]
    return [
        list(zip(*(batch[name].to_pylist() for name in batch.schema.names), strict=True))
        for batch in rows_in_order(iter(batches), "group", "first_seq")
    ]


@pytest.mark.parametrize(
    ("size", "rows_a_batch"),
    [(10, [5]), (400_000, [3, 2]), (2_000_000, [1, 1, 1, 1, 1])],
    ids=["small", "some", "large"],
)
def test_groups_come_one_by_one_sorted_and_equal_rows_stay_as_they_came(size: int, rows_a_batch: list[int]) -> None:
    found = _handed_over(size)
    assert [len(batch) for batch in found] == rows_a_batch
    assert [(group, seq, payload[:1]) for batch in found for group, seq, payload in batch] == [
        (0, 1, b"a"),
        (0, 7, b"b"),
        (1, 3, b"b"),
        (1, 5, b"a"),
        (1, 5, b"b"),
    ]
