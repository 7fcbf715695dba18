"""Recordings in which rows are lost, and gap rows say so: nothing is a violation that is none in the whole trace."""

import random
from collections import Counter

import pytest
from examples import examples
from gapped_traces import OF_ENTRIES, Interval, bounds, findings, violations, with_gaps
from hypothesis import given, settings
from hypothesis import strategies as st
from local_replay import GROUP, LOW, Columns, Log, Replay, recorded_logs, replayed, replayed_logs, replayed_recording
from recorded import ALL, of_each

# Churn, an administrator who moves mark-delete, resets, and batches that are acknowledged piece by piece.
QUICK = ["heavy-churn-1-3.0.7", "expire-skip-clear-churn-4.0.8", "seek-4.2.4", "mixed-batch-4.0.8"]
# Of recordings with findings: the share of those outside of a gap in the middle that is found all the same.
FOUND = {"heavy-churn-1-3.0.7": 13, "heavy-churn-1-4.0.8-classic": 46}

GAPS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0005, 0.005, 0.05, 0.2])), min_size=1, max_size=8)
LOST = st.sampled_from([OF_ENTRIES, ("ack",), ("dispatch",), ("publish",), None])


def _intervals(logs: list[list[Columns]], gaps: list[tuple[float, float]]) -> list[Interval]:
    first, last = bounds(logs)
    starts = [(first + int(at * (last - first)), int(width * (last - first))) for at, width in gaps]
    return [Interval(start, min(start + length, last)) for start, length in starts]


@pytest.mark.recordings
@of_each(QUICK, one_in=2)
@examples(8)
@given(gaps=GAPS, share=st.sampled_from([1.0, 0.5, 0.1, 0.02]), events=LOST, seed=st.integers(0, 99))
def test_what_is_lost_proves_nothing(
    name: str, gaps: list[tuple[float, float]], share: float, events: tuple[str, ...] | None, seed: int
) -> None:
    logs = [list(log) for log in recorded_logs(name)]
    rng = random.Random(seed)
    cut = with_gaps(logs, _intervals(logs, gaps), share, rng, events=events, of_topics=seed % 5 == 0)
    assert violations(replayed_logs(name, cut)) - violations(replayed_recording(name)) == Counter()


@pytest.mark.slow
@of_each(name for name in ALL if name not in QUICK)
@settings(max_examples=4, deadline=None)
@given(gaps=GAPS, share=st.sampled_from([1.0, 0.5, 0.1, 0.02]), events=LOST, seed=st.integers(0, 99))
def test_what_is_lost_proves_nothing_in_any_recording(
    name: str, gaps: list[tuple[float, float]], share: float, events: tuple[str, ...] | None, seed: int
) -> None:
    logs = [list(log) for log in recorded_logs(name)]
    cut = with_gaps(logs, _intervals(logs, gaps), share, random.Random(seed), events=events)
    assert violations(replayed_logs(name, cut)) - violations(replayed_recording(name)) == Counter()


@pytest.mark.recordings
@pytest.mark.parametrize("name", FOUND)
def test_what_is_there_is_found_around_a_gap(name: str) -> None:
    logs = recorded_logs(name)
    first, last = bounds(logs)
    middle = Interval(first + int(0.45 * (last - first)), first + int(0.55 * (last - first)))
    cut = with_gaps(logs, [middle], 1.0, random.Random(0))
    whole, left = findings(replayed_recording(name)), findings(replayed_logs(name, cut))
    assert left - whole == Counter()
    assert sum(left.values()) == FOUND[name]


def _two_holders(log: Log) -> int:
    """The second consumer is sent what the first one holds; returns the seq of its dispatch."""
    log.publish(0, LOW)
    log.publish(1, LOW)
    log.dispatch(1, 0, LOW)
    log.now_us += 1_000_000
    log.join(2)
    log.now_us += 1_000_000
    return log.dispatch(2, 1, LOW)


def _found(replay: Replay) -> list[tuple[str, int]]:
    return [(rule, what[0]) for (_, rule, what) in violations({GROUP: replay})]


def test_without_a_gap_row_missing_acknowledgements_did_not_happen() -> None:
    log = Log()
    log.join(1)
    second = _two_holders(log)
    assert _found(replayed(log.rows)) == [("single_holder", second)]


def test_two_holders_in_front_of_a_gap_are_found() -> None:
    log = Log()
    log.join(1)
    second = _two_holders(log)
    log.now_us += 1_000_000
    log.ack(1, 0)
    log.ack(2, 1)
    cut = with_gaps([log.rows], [Interval(second + 2, second + 9)], 1.0, random.Random(0))
    rows = [row for part in cut for row in part]
    assert [row["event"] for row in rows].count("ack") == 0
    assert _found(replayed(rows)) == [("single_holder", second)]
