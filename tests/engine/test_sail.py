"""What the embedded engine replays is what the replay alone gives."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from parquet_recordings import as_parquet

from dispatch_audit.pipeline.engine.functions import Workers

SCRIPT = Path(__file__).with_name("replay_on_sail.py")
# Each kind of dispatcher, and several groups in a trace.
NAMES = ("crash-1-3.3.2", "crash-3-4.0.8-classic", "two-subscriptions-4.2.4")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script says of the recordings."""
    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, str(SCRIPT), *(str(as_parquet(name, folder / name)) for name in NAMES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("workers", get_args(Workers))
def test_rows_are_those_of_the_replay_alone(workers: str, answered: dict[str, Any]) -> None:
    assert (answered["engine"], answered["brief"]) == ("Sail 0.7.2", "threads")
    compared = answered["compared"][workers]
    assert len(compared) == len(NAMES)
    assert all(found["differing"] == 0 for found in compared.values()), compared
    assert all(found["rows"] > 100 for found in compared.values())


@pytest.mark.heavy
def test_processes_freeze_their_imports(answered: dict[str, Any]) -> None:
    assert answered["frozen"] > 10_000
