"""Audits of one window by several processes at one time: do the tables end up as those of one audit?"""

import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import typer

from benchmarks.reliability_parts.audited import Means
from benchmarks.reliability_parts.cuts import SAMPLES, bounds_of
from benchmarks.runs import ROOT
from benchmarks.table_rows import rows_of_tables
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.windows.window import Window

_SAMPLE: Final = SAMPLES / "heavy-churn-3.0.7"
_PROCESSES: Final = 2
_APART_S_MAX: Final = 1.0
_GAVE_WAY: Final = 4


def at_one_time(means: Means, rounds: int, seed: int) -> dict[str, Any]:
    """Starts two processes on one window of a sample, the second within a second, so many times.

    Args:
        means: of the audits.
        rounds: how many times.
        seed: of how long the second one waits.

    Returns:
        `rounds_tried`; `rounds_equal`: those after which the tables had the rows of one undisturbed audit;
        `exit_codes`: how often each pair of exit codes came, 4 being that of the one that gave way.
    """
    chance, equal, codes = random.Random(seed), 0, Counter[str]()
    # The path of the trace is part of the run key, which is relative to this folder.
    os.chdir(ROOT)
    trace = _SAMPLE.relative_to(ROOT)
    first, last = bounds_of(_SAMPLE)
    middle = (first + last) // 2
    with tempfile.TemporaryDirectory(prefix="reliability-") as scratch:
        means.audited(trace, Path(scratch, "undisturbed"), load_settings(), Window(None, middle))
        expected = rows_of_tables(Path(scratch, "undisturbed"))
        for number in range(rounds):
            target = Path(scratch, f"round-{number}")
            command = means.command(trace, target, "--to", str(middle), "--quiet")
            processes = []
            for _ in range(_PROCESSES):
                processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                time.sleep(chance.random() * _APART_S_MAX)
            ends = sorted(process.wait() for process in processes)
            same = rows_of_tables(target) == expected and set(ends) <= {0, _GAVE_WAY} and ends[0] == 0
            typer.echo(f"exit codes {ends}: {'equal' if same else 'DIFFERENT'}", err=True)
            equal += same
            codes[str(ends)] += 1
    return {"rounds_tried": rounds, "rounds_equal": equal, "exit_codes": dict(codes)}
