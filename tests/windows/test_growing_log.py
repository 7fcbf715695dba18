"""A growing log, audited window by window on Spark into Delta tables."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import MANIFEST
from pyspark.sql import SparkSession

from benchmarks.window_rows import Reported, Row, differences, reported_by
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.settings import Settings, load_settings
from dispatch_audit.pipeline.tables.tables import of_runs
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.windows.window import Window

pytestmark = pytest.mark.spark

STEP_US = 100_000
TABLES = (
    "metrics",
    "violations",
    "blocking",
    "assignments",
    "draining",
    "consumers",
    "coverage",
    "state",
    "quarantine",
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One target for all logs here, which are different questions: making tables takes longer than an audit."""
    return str(tmp_path_factory.mktemp("target"))


class Growing:
    """A log that rows are added to, and the windows of it that are audited."""

    def __init__(self, spark: SparkSession, folder: Path, target: str) -> None:
        folder.mkdir()
        (folder / "trace.json").write_text(json.dumps(MANIFEST))
        self.log = folder / "events.jsonl"
        self.log.touch()
        self.folder = folder
        self._spark, self._target = spark, target
        self._tables = tables_of(None, parse_target(target))

    def add(self, rows: Sequence[Mapping[str, Any] | str]) -> None:
        """Appends rows, or lines of text."""
        with self.log.open("a") as log:
            log.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)

    def audit(
        self,
        from_us: int | None = None,
        to_us: int | None = None,
        progress: Progress = lambda stage: None,
        beside: Sequence[Path] = (),
        **asked: Any,
    ) -> tuple[str, ...]:
        """Audits a window, also of the traces beside this one, and returns the run keys."""
        window = Window(from_us, to_us)
        paths = tuple(map(str, (self.folder, *beside)))
        request = AuditRequest(paths, self._target, None, _settings(), window, **asked)
        return audit(self._spark, request, progress).run_keys

    def rows(self, table: str, *run_keys: str) -> Sequence[Row]:
        return self._tables.query(table, "*", f"WHERE {of_runs(run_keys)}")

    def run(self, run_key: str) -> Row:
        (run,) = self.rows("runs", run_key)
        return run

    def reported(self, *run_keys: str) -> Reported:
        return reported_by(self._target, run_keys)

    def contents(self, *run_keys: str) -> dict[str, list[str]]:
        """All rows of runs, but for their times."""
        return {table: sorted(map(str, self.rows(table, *run_keys))) for table in TABLES}


@pytest.fixture
def growing(spark: SparkSession, tmp_path: Path, target: str) -> Growing:
    return Growing(spark, tmp_path / "trace", target)


def _settings() -> Settings:
    """Few rows are easily a large share of few."""
    settings = load_settings()
    return settings.model_copy(update={"trace": settings.trace.model_copy(update={"quarantine_ratio_max": 0.5})})


def at(step: int) -> int:
    """The moment of a row of `service`, or of the row that would stand there."""
    return step * STEP_US


def service(first: int, behind: int) -> list[dict[str, Any]]:
    """Rows of a topic with one consumer, row n at step n: a join, then entries published, sent and acknowledged."""
    rows: list[dict[str, Any]] = []
    for step in range(first, behind):
        row = {"seq": step * 10, "ts_us": at(step), "topic": "t"}
        consumer = {"subscription": "s", "consumer": 1, "consumer_name": "c1"}
        entry = {"ledger_id": 7, "entry_id": (step - 1) // 3, "batch_size": 1, "key_b64": "b3JkZXItNDI="}
        kind = "join" if step == 0 else ("publish", "dispatch", "ack")[(step - 1) % 3]
        if kind == "publish":
            row |= {"event": kind, **entry}
        elif kind == "dispatch":
            row |= {"event": kind, **consumer, **entry, "redelivery_count": 0}
        elif kind == "ack":
            positions = [{"ledger_id": 7, "entry_id": entry["entry_id"]}]
            row |= {"event": kind, **consumer, "ack_type": "individual", "positions": positions}
        else:
            row |= {"event": kind, **consumer}
        rows.append(row)
    return rows


def later(rows: Sequence[Mapping[str, Any]], steps: int) -> list[dict[str, Any]]:
    """The same rows so many steps later."""
    return [{**row, "seq": row["seq"] + 10 * steps, "ts_us": row["ts_us"] + at(steps)} for row in rows]


def test_windows_follow_each_other_and_tell_what_all_at_once_tells(growing: Growing) -> None:
    rows = service(0, 31)
    # What was sent at step 5 is not acknowledged, and goes out once more, without its key, in the last window.
    again = {name: value for name, value in rows[5].items() if name != "key_b64"} | {"key_source": "none"}
    del rows[6]
    growing.add([*rows, {**again, "seq": 255, "ts_us": at(25) + 1}])
    (at_once,) = growing.audit()
    first, second, last = (*growing.audit(to_us=at(9)), *growing.audit(to_us=at(21)), *growing.audit(at(21), None))
    runs = [growing.run(key) for key in (first, second, last)]
    assert [run["starts_from"] for run in runs] == ["beginning", "state", "state"]
    windows = [(run["window_from_us"], run["window_to_us"]) for run in runs]
    assert windows == [(None, at(9)), (at(9), at(21)), (at(21), None)]
    assert [(run["first_seq"], run["next_seq"]) for run in runs] == [(None, 90), (90, 210), (210, None)]
    assert [run["events_in"] for run in runs] == [8, 12, 11]
    assert [len(growing.rows("state", key)) for key in (first, second, last, at_once)] == [1, 1, 0, 0]
    of_windows = [name for name in growing.run(at_once) if name.startswith("window_")]
    of_windows += ["chain", "starts_from", "first_seq", "next_seq", "events_without_seq", "events_late"]
    assert {growing.run(at_once)[name] for name in of_windows} == {None}
    assert differences(growing.reported(first, second, last), growing.reported(at_once)) == {}
    duplicates = [row for row in growing.rows("violations", last) if row["rule"] == "early_duplicate"]
    assert [row["key"] for row in duplicates] == ["order-42"], "the key stands in the first window only"
    # Asked again, the second window is the same run with the same rows, and no other has changed.
    before = growing.contents(first, second, last)
    assert growing.audit(to_us=at(21)) == (second,)
    assert growing.contents(first, second, last) == before


def test_rows_that_come_late_are_told_and_audited_once_their_window_is_repeated(
    growing: Growing, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = service(0, 31)
    late = [rows.pop(5), rows.pop(4)]
    growing.add(rows)
    (first,) = growing.audit(to_us=at(9))
    # One of them twice, and one that the first window has audited: neither is anything that no run has audited.
    growing.add([*late, late[0], rows[1]])
    (last,) = growing.audit(at(9), None)
    assert [growing.run(key)["events_late"] for key in (first, last)] == [0, 2]
    assert [growing.run(key)["events_in"] for key in (first, last)] == [7, 22]
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(growing.folder, other, dirs_exist_ok=True)
    # Of two traces one has no such window: a wrong call, and nothing was audited again.
    with pytest.raises(UsageError, match="no audited window holds"):
        growing.audit(reaudit_us=at(4), beside=(other,))
    assert [growing.run(key)["events_late"] for key in (first, last)] == [0, 2]
    assert growing.audit(reaudit_us=at(4)) == (first, last)
    assert [growing.run(key)["events_late"] for key in (first, last)] == [0, 0]
    assert [growing.run(key)["events_in"] for key in (first, last)] == [11, 22]
    assert [row["reason"] for row in growing.rows("quarantine", first, last)] == ["repeated_row"] * 2
    assert differences(growing.reported(first, last), growing.reported(*growing.audit())) == {}


def test_old_rows_that_are_delivered_again_are_not_late_and_change_nothing(growing: Growing) -> None:
    rows = service(0, 31)
    growing.add([*rows[:12], *rows[:4]])
    (first,) = growing.audit(to_us=at(9))
    # Most of the first window comes a second and a third time, and some rows of the second twice.
    new = [{**row, "subscription": "new"} for row in later(service(0, 9), 40) if row["event"] != "publish"]
    growing.add([*rows[:8], *rows[12:], *rows[2:6], *rows[14:20], *({**row, "seq": row["seq"] + 1} for row in new)])
    (last,) = growing.audit(at(9), None)
    runs = [growing.run(key) for key in (first, last)]
    assert [run["events_late"] for run in runs] == [0, 0]
    assert [run["events_in"] for run in runs] == [9 + 4, 22 + 6 + len(new)]
    # What the new subscription is given of the time before is told by the window of that time, and not once more.
    assert [run["events_quarantined"] for run in runs] == [4, 6]
    assert {row["reason"] for row in growing.rows("quarantine", first, last)} == {"repeated_row"}
    assert {row["completeness"] for row in growing.rows("coverage", first, last)} == {1.0}
    assert growing.rows("violations", first, last) == []
    # Once more, the log as it is has no row that no window has audited.
    assert growing.audit(reaudit_us=0) == (first, last)
    assert [growing.run(key)["events_in"] for key in (first, last)] == [9 + 4 + 8 + 4, 22 + 6 + len(new)]
    assert [growing.run(key)["events_late"] for key in (first, last)] == [0, 0]


def test_a_row_without_a_seq_is_counted_in_one_window_and_half_a_row_is_left_until_it_is_whole(
    growing: Growing,
) -> None:
    rows = service(0, 31)
    half = json.dumps(rows[21])
    growing.add([*rows[:15], "no JSON", *rows[15:21]])
    with growing.log.open("a") as log:
        log.write(half[:40])
    (first,) = growing.audit(to_us=at(9))
    with growing.log.open("a") as log:
        log.write(half[40:] + "\n")
    growing.add([*rows[22:], "no JSON", '{"event": "ack"}'])
    (last,) = growing.audit(at(9), None)
    assert [growing.run(key)["events_in"] for key in (first, last)] == [9 + 1, 22 + 2]
    assert [growing.run(key)["events_without_seq"] for key in (first, last)] == [1, 2]
    assert growing.run(last)["events_late"] == 0
    lines = [sorted(row["line"] for row in growing.rows("quarantine", key)) for key in (first, last)]
    assert lines == [[16], [33, 34]]
    assert differences(growing.reported(first, last), growing.reported(*growing.audit())) == {}


def test_a_window_that_starts_in_the_middle_is_censored_and_so_are_those_behind_it(growing: Growing) -> None:
    growing.add(service(0, 31))
    first, last = (*growing.audit(at(9), at(21)), *growing.audit(at(21), None))
    assert [growing.run(key)["starts_from"] for key in (first, last)] == ["censored", "state"]
    assert (growing.run(first)["first_seq"], growing.run(first)["events_in"]) == (90, 12)
    # The consumer's join is not known, and is no fault of the log.
    assert [growing.run(key)["events_quarantined"] for key in (first, last)] == [0, 0]
    assert growing.rows("coverage", last)[0]["completeness"] == 0
    assert differences(growing.reported(first, last), growing.reported(*growing.audit(at(9), None))) == {}


def test_subscriptions_outlive_a_window_without_rows_and_come_up_with_what_was_published_before(
    growing: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.add(service(0, 9))
    growing.add(later(service(9, 31), 100))
    new = [{**row, "subscription": "new"} for row in service(0, 9) if row["event"] != "publish"]
    growing.add([{**row, "seq": row["seq"] + 1} for row in later(new, 110)])
    first, empty, last = (*growing.audit(to_us=at(9)), *growing.audit(to_us=at(50)), *growing.audit(at(50), None))
    assert [growing.run(key)["events_in"] for key in (first, empty, last)] == [9, 0, 22 + 6]
    assert (growing.run(empty)["verdict"], growing.run(empty)["completeness"]) == ("clean", 1.0)
    assert [row["subscription"] for row in growing.rows("state", empty)] == ["s"]
    unpublished = {row["subscription"]: row["entries_without_publish"] for row in growing.rows("coverage", last)}
    assert unpublished == {"s": 0, "new": 0}
    assert differences(growing.reported(first, empty, last), growing.reported(*growing.audit())) == {}
    # A state of another make is refused before anything is replayed.
    monkeypatch.setattr("dispatch_audit.pipeline.windows.resolve.STATE_VERSION", 4711)
    with pytest.raises(UsageError, match="reads 4711; audit all windows again: --reaudit 1970-01-01T00:00:00Z"):
        growing.audit(to_us=at(60))


def test_a_window_before_the_log_is_no_clean_verdict(growing: Growing) -> None:
    growing.add(service(5, 9))
    window = r"the beginning of the log to 1970-01-01T00:00:00.300000Z"
    with pytest.raises(TraceError, match=rf"no row lies in the window \({window}\); check --from and --to"):
        growing.audit(to_us=at(3))
    with pytest.raises(TraceError, match=r"no row is at or after --from \(1970-01-01T00:00:09.900000Z\)"):
        growing.audit(at(99), None)


def test_a_window_that_begins_before_the_log_does_is_not_censored(growing: Growing) -> None:
    growing.add(service(1, 9))
    (by_moment,) = growing.audit(at(1), at(9))
    (by_log,) = growing.audit(to_us=at(9))
    assert by_moment != by_log
    assert [growing.run(key)["starts_from"] for key in (by_moment, by_log)] == ["beginning", "beginning"]
    assert [growing.run(key)["first_seq"] for key in (by_moment, by_log)] == [None, None]
    assert differences(growing.reported(by_moment), growing.reported(by_log)) == {}


def test_a_row_whose_clock_was_ahead_does_not_make_every_window_behind_it_clean(growing: Growing) -> None:
    rows = service(0, 12)
    rows[6]["ts_us"] = at(10**6)
    growing.add(rows)
    with pytest.raises(
        TraceError, match="it ends before seq 60, whose time is after --to, but later rows have times in the window"
    ):
        growing.audit(at(6), at(12))
    (first,) = growing.audit(to_us=at(5))
    assert growing.run(first)["events_in"] == 5
    (second,) = growing.audit(to_us=at(8))
    assert growing.run(second)["next_seq"] == 60
    with pytest.raises(TraceError, match="correct the time of that row, or leave --to out"):
        growing.audit(to_us=at(12))
