import json
import subprocess
import sys

import pytest

from benchmarks.runs import ROOT


@pytest.mark.e2e
@pytest.mark.slow
def test_killed_audits_end_with_the_tables_of_an_undisturbed_one() -> None:
    command = [sys.executable, "-m", "benchmarks.reliability", "--kills", "2", "--seed", "3", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["kills_tried"] >= 1
    assert found["kills_equal"] == found["kills_tried"]
