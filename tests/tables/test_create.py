"""What stands where a table is to be created: nothing, what a killed audit left of a creation, or something else."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from ways import Way, by_path

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables import create
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.target import parse_target

WAY = Way(None, by_path)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit waits for one that creates a table at the same time; there is none here."""
    monkeypatch.setattr(create, "_WAITS_S", (0.0,))


UNFINISHED = (
    "_delta_log/",
    "_delta_log/_staged_commits/",
    "_delta_log/.00000000000000000000.json.7f31.tmp",
    "_delta_log/00000000000000000000.json#1",
)


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


@pytest.mark.parametrize("left", [UNFINISHED[:1], UNFINISHED[1:2], UNFINISHED[2:3], UNFINISHED])
def test_a_creation_that_was_killed_is_made_good(left: tuple[str, ...], tmp_path: Path) -> None:
    leave(tmp_path / "metrics", *left)
    assert "metrics" in WAY.opened(tmp_path, "aaaa").created
    assert WAY.tables(tmp_path).query("metrics", "*") == []


@pytest.mark.parametrize(
    "foreign",
    [
        ["monday.txt"],
        ["_delta_log/", "monday.parquet"],
        ["_delta_log/monday.txt"],
        ["_delta_log/_staged_commits/1.json"],
    ],
)
def test_nothing_that_somebody_else_put_there_is_removed(foreign: list[str], tmp_path: Path) -> None:
    leave(tmp_path / "runs", *foreign)
    before = names_in(tmp_path / "runs")
    with pytest.raises(UsageError, match=r"runs in .* is not a Delta table"):
        WAY.opened(tmp_path, "aaaa")
    assert names_in(tmp_path / "runs") == before


@pytest.mark.spark
def test_spark_removes_nothing_either(spark: SparkSession, tmp_path: Path) -> None:
    leave(tmp_path / "runs", "monday.txt")
    with pytest.raises(UsageError, match=r"runs in .* is not a Delta table"):
        open_tables(spark, parse_target(f"file://{tmp_path}"), "aaaa")
    assert names_in(tmp_path / "runs") == ["monday.txt"]


def test_a_log_without_its_first_commits_is_a_usage_error(way: Way, tmp_path: Path) -> None:
    leave(tmp_path / "runs", "_delta_log/00000000000000000003.json")
    with pytest.raises(UsageError, match=r"cannot read the table runs in .*; choose another --out"):
        way.opened(tmp_path, "aaaa")


def test_a_target_that_cannot_be_written_is_a_usage_error(way: Way) -> None:
    with pytest.raises(UsageError, match=r"cannot create tables in .*/proc/audit: .*; choose another --out"):
        way.opened(Path("/proc/audit"), "aaaa")


@pytest.mark.spark
def test_a_catalog_that_is_not_there_is_a_usage_error(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"cannot create the schema nowhere\.audit: .*; choose another --out"):
        open_tables(spark, parse_target("nowhere.audit"), "aaaa")
