"""What the embedded engine replays is what the replay alone gives."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from parquet_recordings import as_parquet

SCRIPT = Path(__file__).with_name("replay_on_sail.py")
# Each kind of dispatcher, and several groups in a trace.
NAMES = ("crash-1-4.0.8", "crash-1-3.3.2", "crash-3-4.0.8-classic", "two-subscriptions-4.2.4", "four-partitions-4.0.8")


@pytest.mark.heavy
@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_rows_are_those_of_the_replay_alone(workers: str, tmp_path: Path) -> None:
    traces = [as_parquet(name, tmp_path / name) for name in NAMES]
    command = [sys.executable, str(SCRIPT), workers, *map(str, traces)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["engine"] == "Sail 0.7.2"
    assert {path: found["differing"] for path, found in told["traces"].items()} == dict.fromkeys(map(str, traces), 0)
    assert all(found["rows"] > 100 for found in told["traces"].values())
