"""A gap concerns what its recorder wrote: its own terms, of one topic or of all."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from gapped_traces import OF_ENTRIES, Interval, violations, with_gaps
from local_replay import Columns, recorded_logs, replayed_logs, tables_of_logs
from two_recorders import BROKERS, divided

NAME = "unload-4.2.4"


def _logs(broker: str) -> tuple[list[list[Columns]], Interval]:
    """The logs of two recorders, and the last tenth of the first term of one of them."""
    logs = divided(recorded_logs(NAME), 0).logs
    own = [row["seq"] for log in logs for row in log if row["broker"] == broker]
    return logs, Interval(min(own), min(own) + (max(own) - min(own)) // 10)


def _gapped(broker: str, events: Sequence[str] | None) -> list[list[Columns]]:
    logs, interval = _logs(broker)
    others = [[row for row in log if row["broker"] != broker] for log in logs]
    own = [[row for row in log if row["broker"] == broker] for log in logs]
    return [*others, *with_gaps(own, [interval], 1.0, random.Random(0), events=events)]


def _censored(logs: Sequence[Sequence[Columns]]) -> int:
    return sum(row["rows_censored"] for row in tables_of_logs(NAME, logs)["coverage"])


@pytest.mark.recordings
@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("events", [OF_ENTRIES, None], ids=["entries", "anything"])
def test_what_one_of_two_recorders_lost_proves_nothing(broker: str, events: Sequence[str] | None) -> None:
    logs = _gapped(broker, events)
    assert violations(replayed_logs(NAME, logs)) == Counter()
    assert _censored(logs) > 0


@pytest.mark.recordings
def test_a_gap_of_the_second_recorder_leaves_the_first_term_as_it_is() -> None:
    logs = _gapped(BROKERS[1], OF_ENTRIES)
    begins = {
        tuple(row[name] for name in ("sticky_hash", "holder", "from_seq", "to_seq", "ended_by"))
        for row in tables_of_logs(NAME, logs)["draining"]
        if row["broker"] == BROKERS[0]
    }
    assert {
        tuple(row[name] for name in ("sticky_hash", "holder", "from_seq", "to_seq", "ended_by"))
        for row in tables_of_logs(NAME, _logs(BROKERS[1])[0])["draining"]
        if row["broker"] == BROKERS[0]
    } == begins


@pytest.mark.recordings
def test_a_gap_of_all_topics_is_one_of_each() -> None:
    logs = _gapped(BROKERS[1], OF_ENTRIES)
    gaps = [row for log in logs for row in log if row["event"] == "gap"]
    of_all = [[row for row in log if row["event"] != "gap"] for log in logs]
    of_all.append([{**gap, "topic": None, "subscription": None} for gap in gaps])
    assert _censored(of_all) == _censored(logs)
    # A recorder that never owned the topic lost nothing of it.
    of_all[-1] = [{**row, "broker": "broker-c"} for row in of_all[-1]]
    assert _censored(of_all) == 0 < _censored(logs)
