"""How many rows a statement wrote, on every release of Spark.

A statement counts what passes through it (`DataFrame.observe`); Spark Connect has that from 4.0 on. Before, the workers
keep the rows that they computed, and count those: rows are computed once in both cases.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.name import over_connect, release


def rows_written(frame: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Writes a frame by `write`; returns the number of rows that the workers wrote."""
    spark = frame.sparkSession
    if over_connect(spark) and release(spark) < (4, 0):
        kept = frame.persist()
        try:
            write(kept)
            return kept.count()
        finally:
            kept.unpersist()
    written = Observation()
    write(frame.observe(written, sf.count(sf.lit(1)).alias("rows")))
    return int(written.get["rows"])
