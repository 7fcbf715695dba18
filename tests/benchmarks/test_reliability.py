"""Kills are where they are said to be, and change nothing."""

import json
import random
import subprocess
import sys

import pytest

from benchmarks.reliability_parts.kills import WRITING, Stage, moments_of
from benchmarks.runs import ROOT

STAGES = [
    *(Stage("start the engine", 9.0), Stage("open tables", 3.0), Stage("replay", 12.0)),
    *(Stage("write tables", 4.0), Stage("finish", 1.0), Stage("report", 2.0)),
]


@pytest.mark.parametrize("number", [0, 1, 2, 7, 20])
def test_half_of_the_moments_lie_in_the_writing_and_the_others_in_all_of_an_audit(number: int) -> None:
    moments = moments_of(STAGES, number, random.Random(3))
    assert len(moments) == number
    assert all(0 <= moment.seconds <= STAGES[moment.stage].seconds for moment in moments)
    names = [STAGES[moment.stage].name for moment in moments]
    # They take turns, the writing first.
    assert all(name in WRITING for name in names[::2])
    if number == 20:
        assert set(names[::2]) == set(WRITING)
        assert {"start the engine", "open tables", "replay"} <= set(names[1::2])


@pytest.mark.e2e
@pytest.mark.slow
def test_killed_audits_end_with_the_tables_of_an_undisturbed_one() -> None:
    command = [sys.executable, "-m", "benchmarks.reliability", "--kills", "2", "--seed", "3", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["kills_tried"] >= 1
    assert found["kills_equal"] == found["kills_tried"] == sum(found["kills_by_stage"].values())
