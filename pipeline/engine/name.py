"""Names the engine behind a session."""

import re
from functools import lru_cache
from typing import Final

from pyspark.sql import SparkSession

SAIL: Final = "Sail"
# Spark answers with the revision that it was built from, Sail with its version only.
_ANSWER_OF_SAIL: Final = re.compile(r"\d+(\.\d+)+\w*")


@lru_cache(maxsize=8)
def engine_name(spark: SparkSession) -> str:
    """Returns the engine of a session and its version, as the table `runs` has it: `Spark 4.2.0`, `Sail 0.7.2`."""
    if not over_connect(spark):
        return f"Spark {spark.version}"
    # Both speak Spark Connect and name the version of Spark that they speak.
    answer = spark.sql("SELECT version()").collect()[0][0]
    return f"{SAIL} {answer}" if _ANSWER_OF_SAIL.fullmatch(answer) else f"Spark Connect {spark.version}"


def over_connect(spark: SparkSession) -> bool:
    """Whether a session speaks Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@lru_cache(maxsize=8)
def release(spark: SparkSession) -> tuple[int, int]:
    """Returns the first two numbers of the version of Spark that a session has: (3, 5)."""
    first, second = re.findall(r"\d+", spark.version)[:2]
    return int(first), int(second)


def on_sail(spark: SparkSession) -> bool:
    """Whether Sail runs the statements of a session."""
    return engine_name(spark).startswith(SAIL)
