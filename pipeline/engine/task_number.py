"""Into how many tasks the work of a stage is divided."""

import math

from pyspark.sql import SparkSession


def task_number(spark: SparkSession, pieces: int, starts: float, a_partition: float = math.inf) -> int:
    """Returns how many tasks share the pieces of a stage's work; each piece belongs to one task.

    A task takes a tenth of a second by itself: its function is sent to a worker, and it writes a file. So there are few
    tasks where little is to be done, and no fewer than `spark.sql.shuffle.partitions`, which stands for the cores.

    Args:
        spark: the session.
        pieces: how many there are.
        starts: how many times as long as the start of a task all of them take together, about.
        a_partition: the most tasks for each of `spark.sql.shuffle.partitions`.
    """
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or "1"
    if not partitions.isdigit():
        # On Databricks the value may be "auto".
        return max(pieces, 1)
    few = int(partitions)
    return int(max(min(pieces, max(few, math.ceil(starts)), a_partition * few), 1))
