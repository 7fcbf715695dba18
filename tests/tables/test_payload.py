from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.tables.payload import batches_in, encode
from dispatch_audit.pipeline.tables.schemas import TRAVELLING

METRIC: dict[str, Any] = {
    "topic": ["persistent://t/n/orders"],
    "subscription": ["workers"],
    "rule": ["ownership"],
    "checked": np.array([7], dtype=np.int64),
    "violations": [0],
    "permitted": [0],
    "known_bug": [0],
    "not_provable": [0],
    "info": [0],
}


def repeated(*values: Any) -> pa.DictionaryArray:
    """The first of some values, one of a dictionary."""
    return pa.DictionaryArray.from_arrays(np.zeros(1, dtype=np.int8), pa.array(values))


def test_a_column_that_travels_as_a_dictionary_comes_back_plain() -> None:
    given = {**METRIC, "rule": repeated("ownership", "stalled"), "completeness": repeated(None, 0.5)}
    (batch,) = batches_in(encode("metrics", given))
    assert batch.schema == TRAVELLING["metrics"].arrow_schema
    assert batch.column("rule").to_pylist() == ["ownership"]
    assert batch.column("completeness").to_pylist() == [None]


def test_an_absent_nullable_column_becomes_null() -> None:
    table = pa.Table.from_batches(batches_in(encode("metrics", METRIC)))
    assert table.column("completeness").to_pylist() == [None]
    assert table.column("checked").to_pylist() == [7]


def test_no_rows_are_a_valid_payload() -> None:
    assert [batch.num_rows for batch in batches_in(encode("metrics", {}))] == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run_key": ["k"]}, "metrics has no column run_key"),
        ({"checked": ["seven"]}, "do not fit its columns"),
        ({"checked": [1, 2]}, "do not fit its columns"),
        ({"checked": [2**63]}, "do not fit its columns"),
        ({"checked": [None]}, "metrics.checked must not be NULL"),
        ({"rule": repeated("ownership", None)}, "metrics.rule must not be NULL"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change: dict[str, list[object]], message: str) -> None:
    with pytest.raises(DispatchAuditError, match=message):
        encode("metrics", {**METRIC, **change})


def test_a_missing_required_column_is_named() -> None:
    without_rule = {name: values for name, values in METRIC.items() if name != "rule"}
    with pytest.raises(DispatchAuditError, match=r"metrics\.rule must not be NULL"):
        encode("metrics", without_rule)
