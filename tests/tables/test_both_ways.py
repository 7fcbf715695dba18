"""A table that is written in one way is read and continued in the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from table_fixtures import WrittenBy
from table_rows import ROWS
from ways import TWO_TABLES, Way, by_path, by_uri, commits, contents, few_tables, held

from dispatch_audit.pipeline.tables.schemas import TABLES

pytestmark = pytest.mark.spark

THREE_TABLES = {**TWO_TABLES, "state": [ROWS["state"]]}


@pytest.fixture(scope="module", params=["delta-rs first", pytest.param("Spark first", marks=pytest.mark.slow)])
def ways(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[Way, Way]:
    """The first way that writes, and the other one."""
    local, through_spark = Way(None, by_path), Way(spark, by_uri)
    return (local, through_spark) if request.param == "delta-rs first" else (through_spark, local)


@pytest.fixture(scope="module")
def written(ways: tuple[Way, Way], written_by: WrittenBy) -> Path:
    """One run in a target of its own, with rows in every table, for the tests that only read."""
    return written_by(ways[0])


@pytest.fixture
def few(spark: SparkSession) -> Iterator[None]:
    """For tests of what holds of every table; `state` is one that a second run leaves empty."""
    with few_tables(Way(spark, by_uri), "state"):
        yield


def test_both_read_the_same_rows(ways: tuple[Way, Way], written: Path) -> None:
    first, other = (way.tables(written) for way in ways)
    for name, table in TABLES.items():
        # The timestamps that repeat them come in the time zone of the reader.
        names = table.arrow_schema.names
        rows = [[row[column] for row in tables.query(name, "*") for column in names] for tables in (first, other)]
        assert rows[0] == rows[1]
        assert first.columns(name) == other.columns(name)


def test_spark_sees_schema_comments_and_timestamps(spark: SparkSession, written: Path, ways: tuple[Way, Way]) -> None:
    target = ways[0].target(written)
    for name, table in TABLES.items():
        assert target.read(spark, name).schema == table.spark_schema  # names, types, nullability and comments
        described = spark.sql(f"DESCRIBE DETAIL {target.identifier(name)}").collect()[0]
        assert described["description"] == table.comment
        assert described["partitionColumns"] == ["run_key"]
        assert (described["minReaderVersion"], described["minWriterVersion"]) == (1, 3)
    (row,) = target.read(spark, "violations").selectExpr("unix_micros(ts) AS us").collect()
    assert row["us"] == ROWS["violations"]["ts_us"]
    (row,) = target.read(spark, "consumers").select("left_at").collect()
    assert row["left_at"] is None


@pytest.mark.usefixtures("few")
def test_the_other_goes_on_and_replaces(ways: tuple[Way, Way], tmp_path: Path) -> None:
    first, other = ways
    first.write_run(tmp_path, "aaaa", THREE_TABLES)
    before = [commits(tmp_path, name) for name in TABLES]
    opened = other.opened(tmp_path, "bbbb")
    assert not opened.created
    assert [commits(tmp_path, name) for name in TABLES] == before
    other.write_run(tmp_path, "bbbb", THREE_TABLES)
    other.write_run(tmp_path, "aaaa", TWO_TABLES)
    for way in ways:
        counts = {name: len(way.tables(tmp_path).query(name, "run_key")) for name in TABLES}
        assert counts == {name: 2 if name in (*TWO_TABLES, "runs") else 1 for name in TABLES}
    first.write_run(tmp_path, "bbbb", TWO_TABLES)
    assert {len(rows) for rows in contents(tmp_path).values()} == {0, 2}


def test_the_other_holds_the_constraints(ways: tuple[Way, Way], written: Path) -> None:
    rows = held({"violations": [{**ROWS["violations"], "evidence": []}]})
    with pytest.raises(Exception, match="CHECK constraint"):
        ways[1].tables(written).append(TABLES["violations"], rows["violations"], "dddd", 1)


@pytest.mark.usefixtures("few")
def test_a_later_attempt_of_the_other_way_is_seen(ways: tuple[Way, Way], tmp_path: Path) -> None:
    earlier, later = (way.opened(tmp_path, "aaaa") for way in ways)
    earlier.write({})
    later.write(held(TWO_TABLES))
    earlier._replace(TABLES["metrics"], held(TWO_TABLES)["metrics"])
    assert len(ways[0].tables(tmp_path).query("metrics", "*")) == 1


def test_workers_read_the_rows_of_one_run(spark: SparkSession, written: Path) -> None:
    for way in (Way(spark, by_path), Way(spark, by_uri)):
        tables = way.tables(written)
        (row,) = tables.frame("state", ("topic", "payload"), "aaaa").collect()
        assert bytes(row["payload"]) == ROWS["state"]["payload"]
        assert tables.frame("state", ("topic", "payload"), "cccc").isEmpty()
