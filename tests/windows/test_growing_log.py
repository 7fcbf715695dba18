"""A growing log, audited window by window into Delta tables, by commands of the command line; once on Spark, too."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from growing_log import Growing, RefusedError, at, audits_by_command, audits_on_spark, later, service
from pyspark.sql import SparkSession

from benchmarks.window_rows import differences
from dispatch_audit.pipeline.replay.checkpoint import STATE_VERSION

# A log in the folder of a test, with a target for all logs here, which are different questions.
Logs = Callable[[Path], Growing]


@pytest.fixture(scope="module")
def logs(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    folder = tmp_path_factory.mktemp("windows")
    target = str(folder / "target")
    audits = audits_by_command(run_embedded, target, folder / "audit.toml")
    return lambda log: Growing(audits, log, target)


@pytest.fixture(scope="module")
def logs_on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    target = str(tmp_path_factory.mktemp("target"))
    audits = audits_on_spark(spark, target)
    return lambda log: Growing(audits, log, target)


@pytest.fixture
def growing(logs: Logs, tmp_path: Path) -> Growing:
    return logs(tmp_path / "trace")


@pytest.fixture
def growing_on_spark(logs_on_spark: Logs, tmp_path: Path) -> Growing:
    return logs_on_spark(tmp_path / "trace")


def test_windows_follow_each_other_and_tell_what_all_at_once_tells(growing: Growing) -> None:
    check_windows(growing)


@pytest.mark.spark
def test_so_they_do_on_spark(growing_on_spark: Growing) -> None:
    check_windows(growing_on_spark)


def check_windows(growing: Growing) -> None:
    """Three windows of a log against all of it at once; then the second one once more."""
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
    with pytest.raises(RefusedError, match=r"exit code 2: .*: no audited window holds"):
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
    # What the new subscription is given of the time before is reported by the window of that time, and not once more.
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
    growing: Growing,
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


def test_a_state_of_another_make_is_refused_before_anything_is_replayed(growing: Growing) -> None:
    growing.add(service(0, 9))
    (run_key,) = growing.audit(to_us=at(6))
    DeltaTable(growing.folder_of("state")).update(predicate=f"run_key = '{run_key}'", updates={"version": "4711"})
    version = rf"version 4711.* reads {STATE_VERSION}; audit all windows again: --reaudit 1970-01-01T00:00:00Z"
    with pytest.raises(RefusedError, match=f"exit code 2: .*{version}"):
        growing.audit(to_us=at(9))


def test_a_window_before_the_log_is_no_clean_verdict(growing: Growing) -> None:
    growing.add(service(5, 9))
    window = r"the beginning of the log to 1970-01-01T00:00:00.300000Z"
    with pytest.raises(
        RefusedError, match=rf"exit code 3: .*no row lies in the window \({window}\); check --from and --to"
    ):
        growing.audit(to_us=at(3))
    with pytest.raises(
        RefusedError, match=r"exit code 3: .*no row is at or after --from \(1970-01-01T00:00:09.900000Z\)"
    ):
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
        RefusedError,
        match=r"exit code 3: .*it ends before seq 60, whose time is after --to, "
        "but later rows have times in the window",
    ):
        growing.audit(at(6), at(12))
    (first,) = growing.audit(to_us=at(5))
    assert growing.run(first)["events_in"] == 5
    (second,) = growing.audit(to_us=at(8))
    assert growing.run(second)["next_seq"] == 60
    with pytest.raises(RefusedError, match=r"exit code 3: .*correct the time of that row, or leave --to out"):
        growing.audit(to_us=at(12))
