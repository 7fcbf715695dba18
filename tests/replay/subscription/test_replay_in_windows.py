"""However a log is cut into windows, together they report what one audit of the whole log reports."""

import json
import random

import numpy as np
import pytest
from examples import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from local_replay import AUTO_SPLIT, SKEW_US, Log, recorded_logs
from recorded import RECORDINGS, of_each
from test_cutting import Operation, operations, rows_of
from windowed_replay import folded, tables_of_windows

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.settings.broker_limits import Thresholds
from dispatch_audit.pipeline.replay.subscription.result import Watermark, reported_since

# So many that no table is cut short: of the worst of each window there are more than of the worst of all.
ALL = 1_000_000


def rules_for(version: str, broker: dict[str, object], unsettled_us: int, complete: bool = True) -> ReplayConfig:
    profile = profile_for(version, broker)
    return ReplayConfig(
        profile,
        version,
        profile.broker(broker),
        SKEW_US,
        10_000_000,
        thresholds=Thresholds(intervals_max=ALL),
        hot_keys_max=ALL,
        complete_from_start=complete,
        unsettled_us=unsettled_us,
    )


# The draining dispatcher, the recently joined consumers, a crash, a restart of everything, snapshots that disagree,
# duplicates, draining that goes back and forth, several partitions.
RECORDED = [
    "crash-1-4.0.8",
    "double-registration-4.0.8",
    "four-partitions-4.0.8",
    "heavy-churn-1-3.0.7",
    "heavy-churn-1-4.0.8",
    "hung-consumer-4.2.4",
    "max-unacked-consumer-3.0.7",
    "rolling-restart-heavy-1-3.0.7",
    "unload-4.2.4",
]


@pytest.mark.recordings  # the smallest as well: each is replayed in windows and at once
@of_each(RECORDED, one_in=2)
def test_recordings_in_windows(name: str) -> None:
    manifest = json.loads((RECORDINGS / name / "trace.json").read_text())
    logs = recorded_logs(name)
    seqs = sorted(row["seq"] for log in logs for row in log)
    chance = random.Random(name)
    rules = rules_for(manifest["pulsar_version"], manifest["settings"], 2_000_000)
    cuts = sorted(chance.sample(seqs[len(seqs) // 2 :], 3))
    windows = tables_of_windows(logs, rules, cuts)
    assert any(window["draining"] or window["blocking"] for window in windows[:-1]), "nothing is open at a cut"
    at_once = folded(tables_of_windows(logs, rules, []))
    for table, reported in folded(windows).items():
        assert reported == at_once[table], f"{table} of windows cut in front of seqs {cuts}"


@pytest.mark.heavy
@examples(60)
@given(
    operations,
    st.sampled_from([("start end", 60_000_000), ("end", 6_000_000)]),
    st.sampled_from(["4.0.8", "3.0.7"]),
    st.lists(st.integers(1, 100), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_log_in_any_windows(
    done: list[Operation], dispatched: tuple[str, int], version: str, cuts: list[int], complete: bool
) -> None:
    sides, unsettled_us = dispatched
    rows = rows_of(done, sides)
    # Longer than a dispatch, or a change, may wait for its other side.
    rules = rules_for(version, dict(AUTO_SPLIT), unsettled_us, complete)
    at_once = tables_of_windows([rows], rules, [])
    # A dispatch inside a standstill divides it, and a window merges only the parts that it contains itself.
    details = (json.loads(row["detail"]) for row in at_once[0]["violations"] if row["rule"] == "stalled")
    assume(not any(detail.get("times", 1) > 1 for detail in details))
    assert folded(tables_of_windows([rows], rules, cuts)) == folded(at_once)


def test_what_is_settled_is_told_at_once_and_what_is_open_with_each_window() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.join(2)  # the hash moves while consumer 1 holds an entry of it
    log.now_us += 100_000_000
    log.write("stats")
    cut = log.rows[-1]["seq"] + 1
    log.now_us += 100_000_000
    log.ack(1, 0)
    log.now_us += 100_000_000
    log.write("stats")
    first, second = tables_of_windows([log.rows], rules_for("4.0.8", dict(AUTO_SPLIT), 60_000_000), [cut])
    (open_one,), (whole,) = first["draining"], second["draining"]
    assert (open_one["from_seq"], open_one["to_seq"]) == (whole["from_seq"], None)
    assert whole["ended_by"] == "ack"


def _place(seq: int) -> TracePoint:
    return TracePoint(seq, 1_000 * seq)


def test_each_row_is_told_by_one_window() -> None:
    windows = [reported_since(None, _place(10)), reported_since(_place(10), _place(20)), reported_since(_place(20))]
    assert [[window.contains(seq) for window in windows] for seq in (0, 10, 11, 20, 21)] == [
        [True, False, False],
        [True, False, False],
        [False, True, False],
        [False, True, False],
        [False, False, True],
    ]
    assert reported_since(None).final
    assert [window.final for window in windows] == [False, False, True]


def test_what_is_open_is_told_by_every_window_that_it_lasts_through() -> None:
    first, second = reported_since(None, _place(10)), reported_since(_place(10), _place(20))
    began, ended = np.array([5, 5, 11]), np.array([15, 15, 15])
    is_open = np.array([True, False, True])
    assert first.holds_intervals(began, ended, is_open).tolist() == [True, False, False], "the second may still change"
    assert second.holds_intervals(began, ended, ~is_open).tolist() == [True, True, True]


def test_rows_are_settled_by_the_clock_and_told_by_seq() -> None:
    settled = Watermark(60_000_000)
    assert settled.point(released_seq=0).seq < 0
    # The clock steps back by a minute after seq 2.
    times_us = np.array([100, 101, 41, 42, 150, 161, 163], dtype=np.int64) * 1_000_000
    settled.add(np.arange(1, 8, dtype=np.int64), times_us)
    assert settled.point(released_seq=7) == TracePoint(4, 101_000_000)
    assert settled.point(released_seq=3).seq < 0, "the rows up to there have not taken effect"
