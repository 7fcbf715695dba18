"""Runs the queries of docs/COOKBOOK.md on the embedded engine, and prints their rows as JSON.

    python tests/docs/cookbook_queries.py TARGET < PARAMETERS

`PARAMETERS` is a JSON object: the parameters of each question. A process of its own, because PySpark has sessions of
one kind in a process: of the classic client or of Connect.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

COOKBOOK = Path(__file__).resolve().parents[2] / "docs" / "COOKBOOK.md"
ALL_RUNS = "all runs"
"""The name of the query before the first question."""

_HEADING = re.compile(r"^### (Q\d+)$", re.MULTILINE)
_PARAMETER = re.compile(r":([a-z_]+)\b")

Parameters = Mapping[str, str | int]
Rows = list[dict[str, Any]]


def queries() -> dict[str, list[str]]:
    """The queries of each question, by its number."""
    before, *sections = _HEADING.split(COOKBOOK.read_text(encoding="utf-8"))
    texts = {ALL_RUNS: before, **dict(zip(sections[::2], sections[1::2], strict=True))}
    return {number: re.findall(r"```sql\n(.*?)```", text, re.DOTALL) for number, text in texts.items()}


def answers(
    spark: SparkSession, target: Path, given: Mapping[str, Parameters]
) -> dict[str, list[list[dict[str, Any]]]]:
    """The rows of each query, by the number of its question."""
    for table in target.iterdir():
        if (table / "_delta_log").is_dir():
            spark.read.format("delta").load(str(table)).createOrReplaceTempView(table.name)
    return {number: [_rows(spark, query, given[number]) for query in of_it] for number, of_it in queries().items()}


def _rows(spark: SparkSession, query: str, given: Parameters) -> Rows:
    arguments = {name: given[name] for name in _PARAMETER.findall(query)}
    return [row.asDict(recursive=True) for row in spark.sql(query, args=arguments).collect()]


if __name__ == "__main__":
    from dispatch_audit.jobs.engines.embedded import embedded
    from dispatch_audit.jobs.engines.load import Load

    session = embedded(SparkSession.builder, quiet=True, load=Load.BRIEF)
    json.dump(answers(session, Path(sys.argv[1]), json.load(sys.stdin)), sys.stdout, default=str)
