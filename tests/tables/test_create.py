"""What stands where a table is to be created: nothing, what a killed audit left of a creation, or something else."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.target import parse_target

pytestmark = pytest.mark.spark

UNFINISHED = ("_delta_log/", "_delta_log/_staged_commits/", "_delta_log/.00000000000000000000.json.7f31.tmp")


def leave(table: Path, *names: str) -> None:
    """Puts files there, or folders if the name ends with a slash."""
    for name in names:
        path = table / name
        folder = path if name.endswith("/") else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if path != folder:
            path.touch()


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("left", [UNFINISHED[:1], UNFINISHED[1:2], UNFINISHED[2:], UNFINISHED])
def test_a_creation_that_was_killed_is_made_good(left: tuple[str, ...], spark: SparkSession, tmp_path: Path) -> None:
    leave(tmp_path / "metrics", *left)
    target = parse_target(str(tmp_path))
    assert "metrics" in open_tables(spark, target, "aaaa").created
    assert target.read(spark, "metrics").isEmpty()


@pytest.mark.parametrize(
    "foreign",
    [
        ["monday.txt"],
        ["_delta_log/", "monday.parquet"],
        ["_delta_log/monday.txt"],
        ["_delta_log/_staged_commits/1.json"],
    ],
)
def test_nothing_that_somebody_else_put_there_is_removed(
    foreign: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    leave(tmp_path / "runs", *foreign)
    before = names_in(tmp_path / "runs")
    with pytest.raises(UsageError, match=r"runs in .* is not a Delta table"):
        open_tables(spark, parse_target(str(tmp_path)), "aaaa")
    assert names_in(tmp_path / "runs") == before


def test_a_log_without_its_first_commits_is_a_usage_error(spark: SparkSession, tmp_path: Path) -> None:
    leave(tmp_path / "runs", "_delta_log/00000000000000000003.json")
    with pytest.raises(UsageError, match=r"cannot read the table runs in .*; choose another --out"):
        open_tables(spark, parse_target(str(tmp_path)), "aaaa")
