"""Rows that travel without nested columns arrive as they were."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, MapType, StructType

from dispatch_audit.pipeline.trace.columnar.conform import conform
from dispatch_audit.pipeline.trace.scan.flat_columns import flattened, restored
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA

pytestmark = pytest.mark.spark

ENTRY: dict[str, Any] = {"ledger_id": 31, "entry_id": 7, "ack_set": None}
ONE = [
    None,
    [ENTRY],
    [{**ENTRY, "ledger_id": 2**63 - 1, "entry_id": 0}],
]
SEVERAL = [
    [],
    [ENTRY, {**ENTRY, "entry_id": 8}],
    [{**ENTRY, "ack_set": [-1, 2**63 - 1, 0]}],
    [{**ENTRY, "ack_set": []}],
    # Only refused rows have these.
    [None],
    [{**ENTRY, "entry_id": None}],
    [{**ENTRY, "ack_set": [None]}],
]
OTHERS: list[dict[str, Any]] = [
    {"batch_keys": ["key-1", None, "", 'a "quoted" \\ \u0000 \u2028 key', "\U0001f600"]},
    {"batch_keys": []},
    {"ranges": [{"start": 0, "end": 65535}, {"start": None, "end": -1}]},
    {"ranges": [None]},
    {"snapshot": {"mark_delete_position": "31:7"}},
    {"key": b"\xff\x00"},
]


def travelled(spark: SparkSession, rows: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The rows before, on the way, and after."""
    events = spark.createDataFrame([{"seq": seq, **row} for seq, row in enumerate(rows)], EVENT_SCHEMA).coalesce(1)
    on_the_way = flattened(events).toArrow()
    batches = [restored(batch) for batch in on_the_way.combine_chunks().to_batches()]
    after = [
        pa.record_batch(
            [conform(batch.column(name), ARROW_TYPES[name]) for name in EVENT_SCHEMA.names], names=EVENT_SCHEMA.names
        )
        for batch in batches
    ]
    return events.toArrow(), on_the_way, pa.Table.from_batches(after)


@pytest.mark.parametrize("positions", [ONE, SEVERAL, [*ONE, *SEVERAL], [None, []]])
def test_positions_arrive_as_they_were(positions: list[Any], spark: SparkSession) -> None:
    before, on_the_way, after = travelled(spark, [{"positions": some} for some in positions])
    assert after.to_pylist() == before.to_pylist()
    assert on_the_way["JSON of positions"].null_count == sum(some in ONE for some in positions)


def test_everything_else_arrives_as_it_was(spark: SparkSession) -> None:
    before, _, after = travelled(spark, OTHERS)
    assert after.to_pylist() == before.to_pylist()
    assert after.schema.names == before.schema.names


def test_no_column_on_the_way_is_nested(spark: SparkSession) -> None:
    schema = flattened(spark.createDataFrame([], EVENT_SCHEMA)).schema
    assert [field.name for field in schema if isinstance(field.dataType, ArrayType | MapType | StructType)] == []
