"""Columns of integers, as numpy arrays."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.trace.arrow_columns import integers

_KINDS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """A column of any width, with and without nulls, or a part of one."""
    bits = draw(st.sampled_from(list(_KINDS)))
    values = draw(st.lists(st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), max_size=40))
    start = draw(st.integers(0, len(values)))
    return pa.array(values, _KINDS[bits])[start : draw(st.integers(start, len(values)))]


@given(columns(), _INT64)
def test_nulls_become_the_value_for_them_and_others_stay(column: pa.Array, absent: int) -> None:
    assert integers(column, absent).tolist() == [absent if value is None else value for value in column.to_pylist()]


@given(columns())
def test_the_caller_may_change_the_array(column: pa.Array) -> None:
    before = column.to_pylist()
    integers(column)[:] = 7
    assert column.to_pylist() == before
