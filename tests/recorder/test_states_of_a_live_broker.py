"""A broker is brought into each state anew, and what it says then is diagnosed as an operator would do it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from state_recording import record
from states import STATES
from test_states_of_a_broker import SIGNS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def diagnosed(*paths: Path, version: str) -> dict[str, Any]:
    """The only diagnosis that the command gives for files or folders, as JSON."""
    options = ("--version", version, "--format", "json")
    command = [sys.executable, "-m", "dispatch_audit.jobs.cli", "diagnose", *map(str, paths), *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, timeout=60, check=False)
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["diagnoses"]
    assert done.returncode == int(found["alarm"])
    return dict(found)


@pytest.mark.parametrize("name", STATES)
def test_a_live_broker_is_diagnosed(name: str, tmp_path: Path) -> None:
    record(STATES[name], tmp_path)
    expected = json.loads((tmp_path / "expect.json").read_text())
    dumps = sorted(tmp_path.glob("stats-*.json"))
    assert len(dumps) == 4
    # What is pasted, what is polled, and what the recorder in the broker has: one state, one answer.
    for paths in (dumps, [tmp_path / "polls"], [tmp_path / "trace"]):
        found = diagnosed(*paths, version=expected["pulsar_version"])
        assert found["alarm"] == bool(expected["cause"]), (paths, found)
        if not expected["cause"]:
            continue
        first = found["reasons"][0]
        assert found["answer"] == "held_up"
        assert (first["name"], first["certainty"]) == (SIGNS[expected["cause"]], "proved"), (paths, found)
        assert first["consumers"] == expected["held_up_by"], (paths, found)
        named = {reason["name"] for reason in found["reasons"]}
        assert named.isdisjoint(SIGNS[cause] for cause in expected["never"]), (paths, named)
