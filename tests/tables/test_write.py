"""What holds of the tables of a run, in whichever way they are written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from table_fixtures import WrittenBy
from table_rows import ROWS
from ways import TWO_TABLES, Way, by_path, commits, contents, few_tables, held, rows_in

from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.threads import at_one_time


@pytest.fixture(scope="module")
def written(way: Way, written_by: WrittenBy) -> Path:
    """One run in a target of its own, for the tests that only read."""
    return written_by(way)


# Writes what a test begins with.
QUICK = Way(None, by_path)


@pytest.fixture
def few(way: Way) -> Iterator[None]:
    with few_tables(way):
        yield


def test_what_the_replay_encodes_is_what_the_tables_hold(way: Way, written: Path) -> None:
    for name, expected in ROWS.items():
        (row,) = rows_in(written, name)
        assert row["run_key"] == "aaaa"
        assert {column: row[column] for column in expected} == expected
        left_out = TABLES[name].arrow_schema.names - expected.keys()
        assert {column: row[column] for column in left_out} == dict.fromkeys(left_out)
    # Both ways find a folder of such a name.
    assert way.tables(written).query("runs", "run_key") == [{"run_key": "aaaa"}]


@pytest.mark.usefixtures("few")
def test_a_second_run_replaces_its_own_rows_and_no_other(way: Way, tmp_path: Path) -> None:
    QUICK.write_run(tmp_path, "aaaa", TWO_TABLES)
    way.write_run(tmp_path, "bbbb", TWO_TABLES)
    before = contents(tmp_path)
    way.write_run(tmp_path, "bbbb", TWO_TABLES)
    assert contents(tmp_path) == before

    way.write_run(tmp_path, "bbbb", {"metrics": [{**ROWS["metrics"], "rule": "ownership"}]})
    after = contents(tmp_path)
    for name in (*TWO_TABLES, "runs"):
        first, second = before[name]
        kept_by_name = {"metrics": [second.replace("single_holder", "ownership")], "quarantine": []}
        assert after[name] == [first, *kept_by_name.get(name, [second])]


@pytest.mark.usefixtures("few")
def test_a_table_without_rows_costs_no_commit(way: Way, tmp_path: Path) -> None:
    way.write_run(tmp_path, "aaaa", {})
    assert {name: commits(tmp_path, name) for name in TABLES} == {**dict.fromkeys(TABLES, 1), "runs": 2}


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("few")
def test_a_run_that_breaks_off_has_not_happened(way: Way, tmp_path: Path) -> None:
    way.write_run(tmp_path, "aaaa", {})
    way.opened(tmp_path, "aaaa").write({})
    assert rows_in(tmp_path, "runs") == []


@pytest.mark.usefixtures("few")
def test_what_comes_after_a_later_attempt_is_left_out(way: Way, tmp_path: Path) -> None:
    earlier, later = (way.opened(tmp_path, "aaaa") for _ in range(2))
    earlier.write({})
    later.write(held(TWO_TABLES))
    # What a slow thread of the earlier attempt would do now.
    earlier._replace(TABLES["metrics"], held(TWO_TABLES)["metrics"])
    assert len(rows_in(tmp_path, "metrics")) == 1


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("few")
def test_an_attempt_that_writes_while_another_one_looks_is_the_later_one(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = (way.opened(tmp_path, "aaaa") for _ in range(2))
    # The slow one sees nobody, and goes on only when the quick one has written.
    monkeypatch.setattr(slow.staging, "others", lambda: quick.write(held(TWO_TABLES)))
    slow.write(held(TWO_TABLES))
    assert len(rows_in(tmp_path, "metrics")) == 1


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("few")
def test_audits_that_create_the_tables_at_one_time_all_land(way: Way, tmp_path: Path) -> None:
    keys = ["aaaa", "bbbb", "cccc"]
    at_one_time(lambda run_key: way.write_run(tmp_path, run_key, TWO_TABLES), keys)
    for name in (*TWO_TABLES, "runs"):
        assert sorted(row["run_key"] for row in rows_in(tmp_path, name, "run_key")) == keys


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("few")
def test_runs_that_are_replaced_at_one_time_do_not_hinder_each_other(way: Way, tmp_path: Path) -> None:
    keys = ["aaaa", "bbbb", "cccc", "dddd"]
    for run_key in keys[:2]:
        QUICK.write_run(tmp_path, run_key, TWO_TABLES)
    # Two append while two remove the rows of before.
    at_one_time(lambda run_key: way.write_run(tmp_path, run_key, TWO_TABLES), keys)
    for name in (*TWO_TABLES, "runs"):
        assert sorted(row["run_key"] for row in rows_in(tmp_path, name, "run_key")) == keys


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("violations", {"severity": "bad"}),
        ("violations", {"severity": "permitted"}),
        ("violations", {"severity": "known_bug"}),
        ("violations", {"evidence": []}),
        ("blocking", {"to_seq": 9}),
        ("blocking", {"scope": "key"}),
        ("assignments", {"range_end": -1}),
        ("assignments", {"last_epoch": 2}),
        ("draining", {"entries_at_start": 0}),
        ("consumers", {"hash_share": 1.5}),
        ("metrics", {"info": -1}),
        ("hot_keys", {"dispatched_share": 1.5}),
        ("coverage", {"rows_judged": 101}),
        ("producers", {"mixed_batches": 11}),
        ("quarantine", {"line": 0}),
        ("state", {"payload": b""}),
        ("runs", {"events_audited": 98}),
        ("runs", {"starts_from": "somewhere"}),
    ],
    ids=str,
)
def test_constraints_refuse_rows_that_cannot_be(way: Way, written: Path, table: str, change: dict[str, Any]) -> None:
    rows = held({table: [{**ROWS[table], **change}]})
    # Depending on where Spark's Delta notices, the error arrives converted or as the bridge to the JVM has it.
    with pytest.raises(Exception, match="CHECK constraint"):
        way.tables(written).append(TABLES[table], rows[table], "dddd", 1)
