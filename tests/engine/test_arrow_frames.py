"""Rows go to Spark and come back as they were, with and without the methods of Spark 4."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.releases.arrow_frames import arrow_table, frame_of_table

pytestmark = pytest.mark.spark

SCHEMA = "number LONG, name STRING, bytes BINARY, list ARRAY<INT>"
ARROW = pa.schema(
    [("number", pa.int64()), ("name", pa.string()), ("bytes", pa.binary()), ("list", pa.list_(pa.int32()))]
)
ROWS = [
    {"number": 1 << 60, "name": "a", "bytes": b"\x00\xff", "list": [1, None]},
    {"number": None, "name": None, "bytes": None, "list": None},
]


def test_rows_come_back(spark: SparkSession) -> None:
    frame = frame_of_table(spark, pa.Table.from_pylist(ROWS, ARROW), SCHEMA)
    assert arrow_table(frame, ARROW).to_pylist() == ROWS


def test_no_rows_have_their_columns(spark: SparkSession) -> None:
    frame = frame_of_table(spark, ARROW.empty_table(), SCHEMA)
    assert arrow_table(frame, ARROW).schema.names == ARROW.names
