"""Brings the rows of each task into a partition of its own, on every release of Spark.

Spark 4.1 takes the number of a partition as it is (`DataFrame.repartitionById`). Earlier releases put a row into the
partition `pmod(murmur3(key, seed 42), n)`, by which small integers meet: of 400 numbers in 400 partitions a third have
one to themselves. So the key of a task is a number that this function sends to the task's own partition.

Source: Spark 3.5, `HashPartitioning.partitionIdExpression` and `Murmur3_x86_32.hashInt`.
"""

import struct
from itertools import count

import mmh3
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.name import release

_SEED = 42


def in_own_partition(frame: DataFrame, tasks: int, task: str) -> DataFrame:
    """Returns the rows divided into partitions, those of task `n` in partition `n`.

    Args:
        frame: the rows.
        tasks: the number of tasks, and of partitions.
        task: the column with the number of the task, an INT of 0 to `tasks - 1`.
    """
    # A client may be newer than its server, and the other way round.
    if hasattr(frame, "repartitionById") and release(frame.sparkSession) >= (4, 1):
        return frame.repartitionById(tasks, task)
    # Written as text, because each literal would be a call of the JVM.
    keys = sf.expr(f"array({', '.join(map(str, partition_keys(tasks)))})")
    return frame.repartition(tasks, sf.element_at(keys, sf.col(task) + 1))


def partition_keys(partitions: int) -> list[int]:
    """Returns for each partition an INT whose rows a hash partitioning puts there."""
    keys: dict[int, int] = {}
    for key in count():
        keys.setdefault(mmh3.hash(struct.pack("<i", key), _SEED) % partitions, key)
        if len(keys) == partitions:
            break
    return [keys[partition] for partition in range(partitions)]
