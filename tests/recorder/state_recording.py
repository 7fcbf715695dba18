"""Takes the statistics of a broker in a state twice, and recordings of that time.

As a program it writes them anew into a folder, for all states or those that are named:

    PYTHONPATH=.:tests:tests/recorder:tests/recording python tests/recorder/state_recording.py tests/data/statistics
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from churn import SUBSCRIPTION, TOPIC
from recording_broker import RecordingBroker, recording_broker, wait_for
from states import STATES, Scene, State

ROOT = Path(__file__).resolve().parents[2]
POLLS = 4
"""Of `record-stats` between the two moments, one a second."""


def take(broker: RecordingBroker, into: Path, moment: int) -> int:
    """Writes what `pulsar-admin topics stats` and `stats-internal` print, and returns the time of the first in ms."""
    taken_ms = time.time_ns() // 1_000_000
    broker.print_statistics("stats", TOPIC, into / f"stats-{moment}.json")
    broker.print_statistics("stats-internal", TOPIC, into / f"stats-internal-{moment}.json")
    return taken_ms


def poll(broker: RecordingBroker, into: Path) -> None:
    """Lets `record-stats` poll the namespace of the topic."""
    namespace = "/".join(TOPIC.removeprefix("persistent://").split("/")[:2])
    options = ("--admin-url", broker.admin_url, "--namespace", namespace, "--out", into, "--count", POLLS)
    command = [sys.executable, "-m", "dispatch_audit.jobs.cli", "record-stats", *map(str, options), "--quiet"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60, check=True)


def record(state: State, into: Path) -> None:
    """Brings a broker into a state, and writes its statistics twice, recordings of that time, and `expect.json`.

    `trace` is the recording of the recorder in the broker, `polls` that of `record-stats`.

    Args:
        state: the state.
        into: an empty folder.
    """
    traces = into / "traces"
    traces.mkdir()
    with recording_broker(traces, FileSeconds=5, SnapshotMs=500, FlushMs=50, **state.settings) as broker:
        scene = Scene(broker)
        state.enter(scene)
        first = take(broker, into, 1)
        poll(broker, into / "polls")
        second = take(broker, into, 2)
        files = broker.metric("files_completed_total")
        # The one that is open now has the rows until here.
        wait_for(lambda: broker.metric("files_completed_total") > files, "a complete file")
        version = json.loads((broker.trace / "trace.json").read_text())["pulsar_version"]
        # A broker that stops in order closes all consumers; the recording ends in the state.
        broker.process.kill()
        scene.close()
    _keep_complete_files(broker.trace, into / "trace")
    shutil.rmtree(traces)
    traces.with_suffix(".log").unlink()
    said = {"pulsar_version": version, "topic": TOPIC, "subscription": SUBSCRIPTION, "taken_ms": [first, second]}
    (into / "expect.json").write_text(json.dumps({**said, **asdict(state.expected)}, indent=1) + "\n")


def _keep_complete_files(trace: Path, kept: Path) -> None:
    (kept / "events").mkdir(parents=True)
    shutil.copy(trace / "trace.json", kept)
    for log in sorted((trace / "events").glob("*.jsonl.gz")):
        shutil.copy(log, kept / "events")


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or STATES:
        with tempfile.TemporaryDirectory() as made:
            record(STATES[name], Path(made))
            version = json.loads((Path(made) / "expect.json").read_text())["pulsar_version"]
            target = folder / f"{name}-{version}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(made, target)
        print(target, flush=True)


if __name__ == "__main__":
    main()
