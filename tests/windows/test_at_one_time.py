"""Two audits of one log at one time: of different windows both land, of the same window one gives way."""

import threading
from pathlib import Path

import pytest
from growing_log import TABLES, Growing, at, audits_on_spark, service
from meeting import MEET_S_MAX, tables_that_meet
from pyspark.sql import SparkSession

from dispatch_audit.pipeline import audit as audit_module
from dispatch_audit.pipeline.errors import GaveWayError
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.tables.write import RunTables
from dispatch_audit.pipeline.windows.window import Window

pytestmark = pytest.mark.spark


@pytest.fixture
def growing(spark: SparkSession, tmp_path: Path) -> Growing:
    """A log in a target of its own: making the tables is part of what is done at one time."""
    target = str(tmp_path / "target")
    log = Growing(audits_on_spark(spark, target), tmp_path / "trace", target)
    log.add(service(0, 31))
    return log


class Meeting:
    """Audits that wait for each other before they write."""

    def __init__(self, spark: SparkSession, growing: Growing, audits: int) -> None:
        self._growing = growing
        self._barrier = threading.Barrier(audits)
        self._audits = audits_on_spark(spark, growing.target, self._begin)

    def audit(self, window: tuple[int | None, int | None]) -> str | None:
        """The run key; None: it gave way."""
        try:
            (run_key,) = self._audits([self._growing.folder], Window(*window), None)
        except GaveWayError:
            return None
        return run_key

    def _begin(self, stage: str) -> None:
        if stage == "write tables":
            self._barrier.wait(MEET_S_MAX)


def test_of_different_windows_both_land(spark: SparkSession, growing: Growing) -> None:
    # There is no window that the second could go on from, whichever is the first to be written.
    windows = [(None, at(9)), (at(15), at(21))]
    keys = at_one_time(Meeting(spark, growing, 2).audit, windows)
    assert None not in keys
    at_once = growing.contents(*map(str, keys))
    assert [growing.audit(*window) for window in windows] == [(key,) for key in keys]
    assert growing.contents(*map(str, keys)) == at_once
    assert [growing.run(str(key))["events_in"] for key in keys] == [9, 6]


def test_of_the_same_window_one_gives_way(
    spark: SparkSession, growing: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, barrier = (None, at(9)), threading.Barrier(2)

    def opened(spark: SparkSession, target: Target, run_key: str) -> RunTables:
        attempt = open_tables(spark, target, run_key)
        attempt.tables = tables_that_meet(attempt.tables, barrier)
        return attempt

    with monkeypatch.context() as patched:
        patched.setattr(audit_module, "open_tables", opened)
        keys = at_one_time(Meeting(spark, growing, 2).audit, [window, window])
    tables = tables_of(None, parse_target(str(tmp_path / "target")))
    left = {table: sorted(map(str, tables.query(table, "*"))) for table in TABLES}
    runs = len(tables.query("runs", "run_key"))
    (run_key,) = growing.audit(*window)
    assert set(keys) <= {run_key, None}
    assert (keys.count(None), runs) == (1, 1)
    assert left == growing.contents(run_key)
    assert growing.run(run_key)["events_in"] == 9
