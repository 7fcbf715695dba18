"""The time lines that `audit --report` and `report --format` write of recordings."""

import json
from pathlib import Path

import pytest
from embedded_commands import EmbeddedCommands
from trace_event_rules import broken_rules

pytestmark = pytest.mark.e2e

HUNG = "hung-consumer-4.0.8"


def test_time_lines_of_recordings_keep_the_rules_of_the_format(
    audited_traces: Path, run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    of_all = json.loads((audited_traces / "report.perfetto").read_text())
    runs = of_all["otherData"]["runs"]
    assert len(runs) > 3
    assert broken_rules(of_all) == set()
    assert {event.get("cat") for event in of_all["traceEvents"] if event["ph"] != "M"} == {
        "wait",
        "draining",
        "owner",
        "membership",
        "finding",
    }

    (run,) = (run for run in runs if run["trace"].endswith(HUNG))
    file, text = tmp_path / "run.json", tmp_path / "run.txt"
    options = ("--run", run["run_key"], "--format", f"perfetto={file}", "--format", f"text={text}")
    done = run_embedded("report", audited_traces / "tables", *options)
    assert (done.returncode, done.stderr) == (0, f"wrote {file}\nwrote {text}\n")
    assert HUNG in text.read_text()
    document = json.loads(file.read_text())
    assert broken_rules(document) == set()
    (shown,) = document["otherData"]["runs"]
    # It is named from the working directory, which is another one now.
    assert shown["trace"].endswith(HUNG)
    assert {**shown, "trace": run["trace"]} == run
    # c7 never acknowledges.
    waits = [e for e in document["traceEvents"] if e.get("cat") == "wait"]
    costliest = max(waits, key=lambda wait: wait["args"]["message_seconds"])
    assert costliest["name"].startswith("look_ahead_limit: c7 ")
    assert "--consumer c7" in costliest["args"]["explain"]
    explained = {e["args"]["explain"] for e in document["traceEvents"] if "explain" in e.get("args", {})}
    assert all(command.startswith("dispatch-audit explain ") for command in explained)


def test_a_report_that_cannot_be_written_of_an_earlier_run_is_one_line(
    run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    done = run_embedded("report", tmp_path, "--format", f"sarif={tmp_path}/a")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the formats are html, perfetto, text, json, junit" in done.stderr
