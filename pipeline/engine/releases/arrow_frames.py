"""Tables of Arrow as frames of Spark, and frames as tables, on every release of Spark.

Spark has both from 4.0 on (`createDataFrame` of a table, `DataFrame.toArrow`). Before, a table travels as one value,
the stream that Arrow writes of it, which a worker packs or unpacks: types and nulls stay what they are.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dispatch_audit.pipeline.engine.worker_process import Batches, Function

_STREAM = "stream BINARY"


def arrow_table(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Returns the rows of a frame, which must fit into the memory of the driver.

    Args:
        frame: the rows.
        schema: of the table if the frame has no rows.
    """
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    streams = [bytes(row["stream"]) for row in frame.mapInArrow(_packed(), _STREAM).collect()]
    batches = [batch for stream in streams for batch in pa.ipc.open_stream(stream)]
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


def frame_of_table(spark: SparkSession, table: pa.Table, schema: StructType | str) -> DataFrame:
    """Returns the rows of a table as a frame.

    Args:
        spark: the session.
        table: the rows.
        schema: of the frame, with the columns of the table in their order.
    """
    if hasattr(DataFrame, "toArrow"):
        return spark.createDataFrame(table, schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed = spark.createDataFrame([(sink.getvalue().to_pybytes(),)], _STREAM)
    return packed.mapInArrow(_unpacked(), schema)


# Nested functions travel by value, so that workers need no installation of this package to run them.
def _packed() -> Function:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["stream"])

    return pack


def _unpacked() -> Function:
    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for stream in batch.column(0):
                yield from pa.ipc.open_stream(stream.as_buffer())

    return unpack
