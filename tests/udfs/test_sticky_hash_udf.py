"""The pandas UDF gives on a Spark column what the arrays give."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.udfs.sticky_key_hash import HASH_RANGES, sticky_hash_udf, sticky_hashes

KEYS = [b"", b"key-0", None, bytes(range(256)), b"key-0", *(f"key-{i}".encode() for i in range(200))]


@pytest.mark.spark
def test_the_udf_equals_the_function(spark: SparkSession) -> None:
    rows = [(row, key) for row, key in enumerate(KEYS)]
    frame = spark.createDataFrame(rows, "row int, key binary").repartition(3)
    for selector in HASH_RANGES:
        frame = frame.withColumn(selector, sticky_hash_udf(selector)("key"))
    hashed = frame.orderBy("row").toPandas()
    for selector in HASH_RANGES:
        assert dict(frame.dtypes)[selector] == "bigint"
        np.testing.assert_array_equal(hashed[selector], sticky_hashes(KEYS, selector))
