"""The order in which the embedded engine's groups come to their function."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.engine.functions import rows_in_order


def _batch(seqs: Sequence[int], payload: bytes) -> pa.RecordBatch:
    columns = [pa.array(seqs, pa.int64()), pa.array([payload] * len(seqs), pa.binary())]
    return pa.record_batch(columns, names=["first_seq", "events"])


def _handed_over(size: int) -> list[list[tuple[int, bytes]]]:
    batches = [_batch([5, 1], b"a" * size), _batch([], b""), _batch([5, 3], b"b" * size)]
    return [
        list(zip(batch["first_seq"].to_pylist(), batch["events"].to_pylist(), strict=True))
        for batch in rows_in_order(iter(batches), "first_seq")
    ]


@pytest.mark.parametrize(("size", "handed_over"), [(10, 1), (400_000, 4)], ids=["small", "large"])
def test_rows_are_sorted_and_equal_ones_stay_as_they_came(size: int, handed_over: int) -> None:
    found = _handed_over(size)
    assert len(found) == handed_over
    assert [(seq, payload[:1]) for batch in found for seq, payload in batch] == [
        (1, b"a"),
        (3, b"b"),
        (5, b"a"),
        (5, b"b"),
    ]
