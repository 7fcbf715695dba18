"""Line numbers for the few lines of a text that are asked for, in one scan and without moving the others.

Spark reads a file in splits and knows no line numbers, but a split is read in order. So each split is folded
into one row, the number of its lines beside the wanted ones, and only those rows are exchanged and summed up
per file.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf


def numbered(lines: DataFrame, wanted: str, carried: Sequence[str]) -> DataFrame:
    """The wanted lines with their place in their file.

    Args:
        lines: every line of each file, blank ones too, with `file`, `block` (offset of the split, bytes) and
            `row_id` (ascending within a split, without gaps).
        wanted: SQL over `lines`; true = give this line back.
        carried: columns to keep. Those of one split's wanted lines are held in memory together.

    Returns:
        `carried`, `file`, `line` (1-based) and `last_line` (whether no line of the file follows).
    """
    splits = lines.groupBy("file", "block").agg(
        sf.count("*").alias("lines"),
        sf.min("row_id").alias("first_id"),
        sf.collect_list(sf.when(sf.expr(wanted), sf.struct("row_id", *carried))).alias("wanted"),
    )
    of_file = Window.partitionBy("file").orderBy("block")
    earlier = of_file.rowsBetween(Window.unboundedPreceding, -1)
    all_of_file = of_file.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    placed = splits.select(
        "file",
        (sf.coalesce(sf.sum("lines").over(earlier), sf.lit(0)) - sf.col("first_id") + 1).alias("to_line"),
        sf.sum("lines").over(all_of_file).alias("lines_of_file"),
        "wanted",
    ).select("file", "to_line", "lines_of_file", sf.inline("wanted"))
    line = sf.col("row_id") + sf.col("to_line")
    return placed.select(*carried, "file", line.alias("line"), (line == sf.col("lines_of_file")).alias("last_line"))
