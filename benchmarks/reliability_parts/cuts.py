"""Tests windows: a recording that is cut at random moments must report the same as one audit of all of it."""

import gzip
import json
import random
import shutil
from pathlib import Path

import pyarrow.compute as pc
import typer

from benchmarks.reliability_parts.audited import Means
from benchmarks.runs import ROOT
from benchmarks.typed_rows import typed_rows
from benchmarks.window_rows import reported_by
from dispatch_audit.pipeline.settings import Settings, load_settings
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.windows.window import Window

SAMPLES = ROOT / "data" / "samples"
_WINDOWS_MAX = 5
_STRETCHED_US = 600_000_000
_ALL = 1_000_000


def cuts(means: Means, folder: Path, count: int, seed: int) -> dict[str, int]:
    """Cuts logs into 2 to 5 windows each time and compares with the audit of all at once.

    The logs are the samples as they are, and stretched to ten minutes: a window leaves findings of its last minute to
    the next one, and the samples last less than a minute.

    Args:
        means: of the audits.
        folder: for logs and tables; each chain of windows has a target of its own in it.
        count: how often a log is cut; they take turns.
        seed: of the random moments.

    Returns:
        `cuts_tried`, and `cuts_equal`: how many of them reported the same.
    """
    chance, settings = random.Random(seed), _all_findings()
    samples = sorted(path for path in SAMPLES.iterdir() if path.is_dir())
    logs = [*samples, *(_stretched(sample, folder / f"{sample.name}-stretched") for sample in samples)][:count]
    bounds = {log: bounds_of(log) for log in logs}
    at_once = {log: means.audited(log, folder / "at-once", settings) for log in logs}
    equal = 0
    for number in range(count):
        log, target = logs[number % len(logs)], folder / f"cut-{number}"
        run_keys = [means.audited(log, target, settings, window) for window in windows_of(bounds[log], chance)]
        same = reported_by(str(target), run_keys) == reported_by(str(folder / "at-once"), [at_once[log]])
        typer.echo(f"{log.name} in {len(run_keys)} windows: {'equal' if same else 'DIFFERENT'}", err=True)
        equal += same
    return {"cuts_tried": count, "cuts_equal": equal}


def _stretched(sample: Path, folder: Path) -> Path:
    """Writes the rows of a sample, whose wall clock runs so much slower that it lasts ten minutes."""
    folder.mkdir()
    shutil.copy(sample / "trace.json", folder)
    first, last = bounds_of(sample)
    for log in sample.glob("*.jsonl.gz"):
        with gzip.open(log, "rt") as rows, (folder / log.name.removesuffix(".gz")).open("w") as stretched:
            for line in rows:
                row = json.loads(line)
                row["ts_us"] = first + (row["ts_us"] - first) * _STRETCHED_US // (last - first)
                stretched.write(json.dumps(row) + "\n")
    return folder


def bounds_of(log: Path) -> tuple[int, int]:
    """First and last time in a trace, microseconds since 1970 UTC."""
    (trace,) = open_traces([log])
    bounds = pc.min_max(typed_rows(trace, ("seq", "ts_us")).column("ts_us"))
    return bounds["min"].as_py(), bounds["max"].as_py()


def windows_of(bounds_us: tuple[int, int], chance: random.Random) -> list[Window]:
    """2 to 5 windows that follow each other from the beginning of a log to its end, cut at random moments."""
    first, last = bounds_us
    ends = sorted(chance.sample(range(first + 1, last), chance.randint(1, _WINDOWS_MAX - 1)))
    return [*(Window(None, end) for end in ends), Window(ends[-1], None)]


def _all_findings() -> Settings:
    """The settings under which nothing is left out: what is kept of much depends on how much there is."""
    settings = load_settings()
    report = settings.report.model_copy(update={"findings_per_rule_max": 0, "hot_keys_max": _ALL})
    blocking = settings.blocking.model_copy(update={"intervals_max": _ALL})
    return settings.model_copy(update={"report": report, "blocking": blocking})
