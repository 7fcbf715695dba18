"""Tests windows: a recording that is cut at random moments must report the same as one audit of all of it."""

import random
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.runs import ROOT
from benchmarks.typed_rows import typed_rows
from benchmarks.window_rows import reported_by
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import Settings, load_settings
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.windows.window import WHOLE, Window

SAMPLES = ROOT / "data" / "samples"
_WINDOWS_MAX = 5
_ALL = 1_000_000


def cuts(spark: SparkSession, folder: Path, count: int, seed: int) -> dict[str, int]:
    """Cuts the samples into 2 to 5 windows each time and compares with the audit of all at once.

    Args:
        spark: the session.
        folder: for the tables; each chain of windows has a target of its own in it.
        count: how often a sample is cut; they take turns.
        seed: of the random moments.

    Returns:
        `cuts_tried`, and `cuts_equal`: how many of them reported the same.
    """
    chance, settings = random.Random(seed), _all_findings()
    samples = sorted(path for path in SAMPLES.iterdir() if path.is_dir())
    at_once = {sample: _audited(spark, sample, folder / "at-once", [WHOLE], settings) for sample in samples[:count]}
    equal = 0
    for number in range(count):
        sample = samples[number % len(samples)]
        windows = windows_of(sample_bounds(sample), chance)
        target = folder / f"cut-{number}"
        reported = reported_by(str(target), _audited(spark, sample, target, windows, settings))
        equal += reported == reported_by(str(folder / "at-once"), at_once[sample])
    return {"cuts_tried": count, "cuts_equal": equal}


def sample_bounds(sample: Path) -> tuple[int, int]:
    """First and last time in a trace, microseconds since 1970 UTC."""
    (trace,) = open_traces([sample])
    bounds = pc.min_max(typed_rows(trace).column("ts_us"))
    return bounds["min"].as_py(), bounds["max"].as_py()


def windows_of(bounds_us: tuple[int, int], chance: random.Random) -> list[Window]:
    """2 to 5 windows that follow each other from the beginning of a log to its end, cut at random moments."""
    first, last = bounds_us
    ends = sorted(chance.sample(range(first + 1, last), chance.randint(1, _WINDOWS_MAX - 1)))
    return [*(Window(None, end) for end in ends), Window(ends[-1], None)]


def _audited(
    spark: SparkSession, sample: Path, target: Path, windows: list[Window], settings: Settings
) -> tuple[str, ...]:
    requests = (AuditRequest((str(sample),), str(target), None, settings, window) for window in windows)
    return tuple(key for request in requests for key in audit(spark, request, lambda stage: None).run_keys)


def _all_findings() -> Settings:
    """The settings under which nothing is left out: what is kept of much depends on how much there is."""
    settings = load_settings()
    report = settings.report.model_copy(update={"findings_per_rule_max": 0, "hot_keys_max": _ALL})
    blocking = settings.blocking.model_copy(update={"intervals_max": _ALL})
    return settings.model_copy(update={"report": report, "blocking": blocking})
