"""A gap counts the same, whether it lies before a cut between windows, across it or after it."""

import json
import random

import pytest
from gapped_traces import OF_ENTRIES, Interval, bounds, with_gaps
from local_replay import recorded_logs
from recorded import RECORDINGS, of_each
from test_replay_in_windows import rules_for
from windowed_replay import folded, tables_of_windows

# Draining hashes and recently joined consumers that are open when rows get lost, and a restart of everything.
RECORDED = ["heavy-churn-1-4.0.8", "heavy-churn-1-3.0.7", "unload-4.2.4"]


@pytest.mark.recordings
@of_each(RECORDED, one_in=2)
@pytest.mark.parametrize("events", [OF_ENTRIES, None], ids=["entries", "anything"])
def test_windows_of_a_trace_with_gaps(name: str, events: tuple[str, ...] | None) -> None:
    manifest = json.loads((RECORDINGS / name / "trace.json").read_text())
    first, last = bounds(recorded_logs(name))

    def part(at: float) -> int:
        return first + int(at * (last - first))

    gaps = [Interval(part(0.3), part(0.35)), Interval(part(0.55), part(0.6)), Interval(part(0.58), part(0.62))]
    logs = with_gaps(recorded_logs(name), gaps, 0.7, random.Random(name), events=events)
    rules = rules_for(manifest["pulsar_version"], manifest["settings"], 2_000_000)
    cuts = [part(0.25), part(0.33), part(0.45), part(0.57), part(0.59), part(0.8)]
    windows, at_once = tables_of_windows(logs, rules, cuts), folded(tables_of_windows(logs, rules, []))
    assert sum(row["gaps"] for window in windows for row in window["coverage"]) > 2
    for table, reported in folded(windows).items():
        assert reported == at_once[table], f"{table} of windows cut in front of seqs {cuts}"
