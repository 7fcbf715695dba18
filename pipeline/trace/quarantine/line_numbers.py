"""Finds the line numbers of a few wanted lines in one scan, without shuffling the other lines.

Spark reads a file in splits and has no line numbers, but it reads a split in order. So each split is aggregated to one
row with the number of its lines and the wanted lines, and only those rows are exchanged and summed up by file.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf


def numbered(lines: DataFrame, wanted: str, carried: Sequence[str]) -> DataFrame:
    """Returns the wanted lines with their line numbers.

    Args:
        lines: every line of each file, blank ones too, with `file`, `block` (offset of the split, bytes) and
            `row_id` (ascending within a split, without gaps).
        wanted: SQL over `lines`; true = return this line.
        carried: columns to keep. Those of all wanted lines of a split are held in memory together.

    Returns:
        `carried`, `file`, `line` (1-based) and `last_line` (whether no line of the file follows).
    """
    splits = lines.groupBy("file", "block").agg(
        sf.count("*").alias("lines"),
        sf.min("row_id").alias("first_id"),
        sf.collect_list(sf.when(sf.expr(wanted), sf.struct("row_id", *carried))).alias("wanted"),
    )
    by_file = Window.partitionBy("file").orderBy("block")
    earlier = by_file.rowsBetween(Window.unboundedPreceding, -1)
    whole_file = by_file.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    with_offsets = splits.select(
        "file",
        (sf.coalesce(sf.sum("lines").over(earlier), sf.lit(0)) - sf.col("first_id") + 1).alias("to_line"),
        sf.sum("lines").over(whole_file).alias("lines_of_file"),
        "wanted",
    ).select("file", "to_line", "lines_of_file", sf.inline("wanted"))
    line = sf.col("row_id") + sf.col("to_line")
    last_line = (line == sf.col("lines_of_file")).alias("last_line")
    return with_offsets.select(*carried, "file", line.alias("line"), last_line)
