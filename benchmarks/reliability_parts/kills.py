"""Audits that are killed, and run again: do the tables end up as those of an audit that nothing disturbed?

The audit that is killed is a process of its own, as users start it; SIGKILL goes to it, its JVM and its workers. Half
of the moments are spread over all of an audit, half over the stages in which tables are written: they are counted from
the beginning of a stage, which the audit reports, so that they hit it however long the ones before took.
It is run again in a session that is warm, so that twenty kills take minutes.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import typer

from benchmarks.reliability_parts.audited import Means
from benchmarks.runs import ROOT
from benchmarks.table_rows import rows_of_tables
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

SAMPLE: Final = "data/samples/heavy-churn-3.0.7"
WRITING: Final = ("write tables", "finish")
"""The stages in which rows are written; `finish` is the row of `runs`, which no line announces."""

_LOOK_EVERY_S: Final = 0.01


class Stage(NamedTuple):
    """A stage of an audit that nothing disturbed.

    Attributes:
        name: of it.
        seconds: that it took.
    """

    name: str
    seconds: float


class Moment(NamedTuple):
    """When an audit is killed: `seconds` after the beginning of stage number `stage`."""

    stage: int
    seconds: float


def kills(means: Means, number: int, seed: int) -> dict[str, Any]:
    """Kills so many audits of a sample and runs each again.

    Args:
        means: of the audits.
        number: how many.
        seed: of the moments.

    Returns:
        `kills_tried`: audits that were alive when they were killed; `kills_equal`: those after which the tables had the
        rows of an undisturbed audit and nothing else was left in the target; `kills_tables_begun`: those that had
        written something by then; `kills_repaired_by_hand`: those that left a table without its first commit below a
        URI, which only its owner can remove; `kills_by_stage`: how many hit each stage.

    Raises:
        DispatchAuditError: the undisturbed audit failed.
    """
    # The path of the trace is part of the run key, which is relative to this folder.
    os.chdir(ROOT)
    equal = begun = by_hand = 0
    by_stage: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="reliability-") as scratch:
        # Fills numba's cache: an audit that compiles for half a minute says nothing of how long the stages take.
        means.audited(SAMPLE, Path(scratch, "warm-up"), load_settings())
        undisturbed = Path(scratch, "undisturbed")
        stages = _timed(means, undisturbed)
        expected = rows_of_tables(undisturbed)
        for at, moment in enumerate(moments_of(stages, number, random.Random(seed))):
            target = Path(scratch, f"killed-{at}")
            hit = _killed(means, target, stages, moment)
            if hit is None:
                continue  # it was faster than the one before
            by_stage[hit] += 1
            begun += any(target.glob("*/*/*.parquet"))
            try:
                means.audited(SAMPLE, target, load_settings())
            except UsageError:
                by_hand += _remove_unfinished(target)
                means.audited(SAMPLE, target, load_settings())
            nothing_else = {path.name for path in target.iterdir()} - means.left_over == TABLES.keys()
            same = nothing_else and rows_of_tables(target) == expected
            equal += same
            typer.echo(f"killed in {hit!r}: {'equal' if same else 'DIFFERENT'}", err=True)
    hits = {stage.name: by_stage[stage.name] for stage in stages}
    return {
        "kills_tried": by_stage.total(),
        "kills_equal": equal,
        "kills_tables_begun": begun,
        "kills_repaired_by_hand": by_hand,
        "kills_by_stage": hits,
    }


def _remove_unfinished(target: Path) -> bool:
    """Removes tables that have no commit; returns whether there was one."""
    there = [target / name for name in TABLES if (target / name).exists()]
    unfinished = [table for table in there if not any(table.glob("_delta_log/*.json"))]
    for table in unfinished:
        shutil.rmtree(table)
    return bool(unfinished)


def moments_of(stages: Sequence[Stage], number: int, chance: random.Random) -> list[Moment]:
    """Half of the moments, or one more, spread over the stages in which tables are written, the others over all.

    They take turns, so that kills that are broken off have hit both.
    """
    writing = [at for at, stage in enumerate(stages) if stage.name in WRITING]
    whole = [*range(len(stages))]
    of_writing = _spread(stages, writing, number - number // 2, chance)
    of_whole = _spread(stages, whole, number // 2, chance)
    pairs = zip_longest(of_writing, of_whole)
    return [moment for pair in pairs for moment in pair if moment is not None]


def _spread(stages: Sequence[Stage], among: Sequence[int], number: int, chance: random.Random) -> Iterator[Moment]:
    """One moment in each of so many equal parts of the time that some stages take together."""
    together = sum(stages[at].seconds for at in among)
    for part in range(number):
        left = together * (part + chance.random()) / number
        for at in among:
            if left < stages[at].seconds or at == among[-1]:
                yield Moment(at, left)
                break
            left -= stages[at].seconds


@contextmanager
def _started(means: Means, target: Path) -> "Iterator[tuple[subprocess.Popen[bytes], Path]]":
    """An audit in a process group of its own, and the file that logs its stages."""
    log = target.with_suffix(".log")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            means.command(SAMPLE, target, "--log-format", "json"),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process, log
    finally:
        _kill(process)


def _logged_stages(log: Path) -> list[Stage]:
    """The stages that have ended by now; the last line may be half written."""
    whole, _, _ = log.read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return [Stage(line["stage"], line["seconds"]) for line in lines if line["message"] == "stage"]


def _timed(means: Means, target: Path) -> list[Stage]:
    """The stages of an audit that nothing disturbs, in their order, without gaps."""
    begin = time.monotonic()
    ended_s: list[float] = []
    with _started(means, target) as (process, log):
        while process.poll() is None:
            ended_s += [time.monotonic() - begin] * (len(_logged_stages(log)) - len(ended_s))
            time.sleep(_LOOK_EVERY_S)
        if process.returncode:
            raise DispatchAuditError(f"the undisturbed audit of {SAMPLE} ended with exit code {process.returncode}")
        logged = _logged_stages(log)
    # What lies between two stages is of the later one; before the report that is the end of the writing.
    begins_s = [0.0, *ended_s[:-1]]
    stages = [Stage(stage.name, end - start) for stage, start, end in zip(logged, begins_s, ended_s, strict=True)]
    report = logged[-1]
    return [*stages[:-1], Stage("finish", stages[-1].seconds - report.seconds), report]


def _killed(means: Means, target: Path, stages: Sequence[Stage], moment: Moment) -> str | None:
    """Starts an audit and kills it; returns the stage that it was in, None if it had ended."""
    with _started(means, target) as (process, log):
        after_s = moment.seconds
        before = moment.stage
        if stages[before].name == "report":
            # No line says where `finish` ends.
            before -= 1
            after_s += stages[before].seconds
        while len(_logged_stages(log)) < before and process.poll() is None:
            time.sleep(_LOOK_EVERY_S)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
            return None
        _kill(process)
        ended = len(_logged_stages(log))
    if stages[ended].name != "finish":
        return stages[ended].name
    runs = tables_of(None, parse_target(str(target))).query("runs", "run_key")
    return "report" if runs else "finish"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends an audit, its JVM and its workers at one blow; nothing if it has ended."""
    if process.poll() is not None:
        return
    # Spark's workers have a process group of their own.
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family)
    process.wait()
