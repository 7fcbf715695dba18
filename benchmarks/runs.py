"""One run of one plan, in a process of its own, watched from here."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from benchmarks.measure import ProcessTree, Used
from benchmarks.plan import PLANS, READS_ALL, EngineName, Name
from dispatch_audit.pipeline.errors import DispatchAuditError

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_EVERY_S = 0.05
_STEP_S_MAX = 3600.0
_END_S_MAX = 30.0


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        plan: which.
        start_s: wall seconds until the engine ran, with all imports.
        warm_up_s: wall seconds of the first run on the small trace.
        small_s: wall seconds of the second run on the small trace.
        small_cpu_s: CPU seconds of that.
        wall_s: wall seconds of the run that counts.
        used: what that took.
        shuffle_bytes: written into exchanges; None where there are none.
        found: what the plan says it found.
    """

    plan: Name
    start_s: float
    warm_up_s: float
    small_s: float
    small_cpu_s: float
    wall_s: float
    used: Used
    shuffle_bytes: int | None
    found: Mapping[str, int]


def in_rotation(plans: Sequence[Name], round_number: int) -> list[Name]:
    """The plans of a round, each time with another first, so that none has the warmest machine always."""
    first = round_number % len(plans)
    return [*plans[first:], *plans[:first]]


def run_once(plan: Name, warm_up: Path, trace: Path, engine: EngineName = "spark") -> Measured:
    """Runs a plan in a fresh process.

    Args:
        plan: which.
        warm_up: a small trace of the same shape.
        trace: the trace that counts.
        engine: of plans that run on several.

    Raises:
        DispatchAuditError: the process failed, or took an hour for a step.
    """
    with (
        tempfile.TemporaryDirectory(prefix="side-by-side-") as scratch,
        _child(plan, engine, (warm_up, trace, Path(scratch))) as child,
    ):
        begin = time.monotonic()
        child.heard("started")
        started = time.monotonic()
        child.heard("warm")
        warm = time.monotonic()
        small_s, small = child.measured()
        child.heard("ready")
        _, used = child.measured()
        result = child.heard("result")
        return Measured(
            plan=plan,
            start_s=started - begin,
            warm_up_s=warm - started,
            small_s=small_s,
            small_cpu_s=small.cpu_jvm_s + small.cpu_python_s,
            wall_s=result["wall_s"],
            used=used,
            shuffle_bytes=result["shuffle_bytes"],
            found=result["found"],
        )


def require_equal_work(runs: Sequence[Measured], events: int) -> None:
    """Refuses to compare plans of which one did not do its work.

    Raises:
        DispatchAuditError: a plan saw other rows than the trace has, or engines count a rule differently.
    """
    for run in runs:
        if run.plan in READS_ALL and run.found != {"rows": events}:
            raise DispatchAuditError(f"{run.plan} found {dict(run.found)} in a trace of {events} rows")
    counts = {run.plan: dict(run.found) for run in runs if run.plan not in READS_ALL}
    if len({tuple(sorted(found.items())) for found in counts.values()}) > 1:
        counted = "; ".join(f"{plan}: {counts[plan]}" for plan in PLANS if plan in counts)
        raise DispatchAuditError(f"the engines disagree about the two rules: {counted}")


@dataclass(frozen=True)
class _Child:
    plan: Name
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]

    def heard(self, step: str, tree: ProcessTree | None = None) -> Mapping[str, Any]:
        """Waits for the child to reach a step; `tree` is sampled meanwhile."""
        assert self.process.stdout is not None, "it was started with a pipe"
        latest = time.monotonic() + _STEP_S_MAX
        while time.monotonic() < latest:
            ready, _, _ = select.select([self.process.stdout], [], [], SAMPLE_EVERY_S)
            if ready:
                return self._parsed(self.process.stdout.readline(), step)
            if tree is not None:
                tree.sample()
        raise DispatchAuditError(f"{self.plan} was not {step} after {_STEP_S_MAX:g} s")

    def measured(self) -> tuple[float, Used]:
        """Lets the child go on, and returns the wall seconds of its step and what that took."""
        assert self.process.stdin is not None, "it was started with a pipe"
        tree = ProcessTree(self.process.pid)
        tree.begin()
        self.process.stdin.write(b"go\n")
        done = self.heard("done", tree)
        tree.sample()
        return float(done["wall_s"]), tree.used()

    def _parsed(self, line: bytes, step: str) -> Mapping[str, Any]:
        if not line:
            self.errors.seek(0)
            sys.stderr.write(self.errors.read().decode(errors="replace"))
            raise DispatchAuditError(f"{self.plan} failed before it was {step}", "its own words stand above")
        message: dict[str, Any] = json.loads(line)
        if message["step"] != step:
            raise DispatchAuditError(f"{self.plan} is {message['step']}, and not {step}")
        return message


@contextmanager
def _child(plan: Name, engine: EngineName, paths: tuple[Path, Path, Path]) -> Iterator[_Child]:
    command = [sys.executable, "-m", "benchmarks.child", plan, engine, *map(str, paths)]
    # Spark's workers find the package by the path, not by the folder that the user stands in.
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryFile() as errors:
        # Unbuffered, so that a line that was said is never waited for.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            cwd=paths[-1],
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            yield _Child(plan, process, errors)
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Waits until a child and all that it started are gone, so that the next run has the machine for itself."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    with suppress(subprocess.TimeoutExpired):
        # The end of its stdin is what it waits for.
        process.communicate(timeout=_END_S_MAX)
    _, alive = psutil.wait_procs(family, timeout=_END_S_MAX)
    for left_over in alive:
        left_over.kill()
    process.wait()
