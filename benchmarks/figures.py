"""From runs to figures: medians, how far runs lie apart, and ratios between plans."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from benchmarks.plan import Name
from benchmarks.runs import Measured

Figure = Literal[
    "wall_s",
    "cpu_s",
    "cpu_jvm_s",
    "cpu_python_s",
    "events_per_s",
    "events_per_s_per_core",
    "events_per_cpu_s",
    "peak_memory_mb",
    "peak_jvm_mb",
    "peak_python_mb",
    "peak_worker_mb",
    "shuffle_bytes",
    "start_s",
    "warm_up_s",
    "fixed_s",
    "cpu_us_per_event",
]


# The kernel counts CPU time in these, so that a short run may have taken none.
_CPU_TICK_S = 0.01


class Spread(NamedTuple):
    """One figure over the runs of a plan.

    Attributes:
        median: of all runs.
        lowest: of any run.
        highest: of any run.
    """

    median: float
    lowest: float
    highest: float


PlanFigures = Mapping[Figure, Spread]

RATIOS: Mapping[str, tuple[Name, Name, Figure]] = {
    "audit_over_row_floor_wall": ("audit", "row_floor", "wall_s"),
    "audit_over_row_floor_cpu": ("audit", "row_floor", "cpu_s"),
    "audit_over_own_floor_wall": ("audit", "own_floor", "wall_s"),
    "audit_over_own_floor_cpu": ("audit", "own_floor", "cpu_s"),
    "audit_over_spark_sql_wall": ("audit", "spark_sql", "wall_s"),
    "audit_over_spark_sql_cpu": ("audit", "spark_sql", "cpu_s"),
}
"""Name of each ratio: plan, over plan, by which figure. The lower the better for the audit."""


def figures_of(run: Measured, events: int, cores: int, small_events: int) -> dict[Figure, float]:
    """The figures of one run; without `shuffle_bytes` where there is no exchange.

    Args:
        run: a run.
        events: rows of the trace.
        cores: of the machine.
        small_events: rows of the small trace; as many as the other has: `cpu_us_per_event` is missing.
    """
    cpu_s = run.used.cpu_jvm_s + run.used.cpu_python_s
    figures: dict[Figure, float] = {
        "wall_s": run.wall_s,
        "cpu_s": cpu_s,
        "cpu_jvm_s": run.used.cpu_jvm_s,
        "cpu_python_s": run.used.cpu_python_s,
        "events_per_s": events / run.wall_s,
        "events_per_s_per_core": events / run.wall_s / cores,
        # What a core would do that did nothing else; it holds on a busy machine too.
        "events_per_cpu_s": events / max(cpu_s, _CPU_TICK_S),
        "peak_memory_mb": run.used.peak_memory_mb,
        "peak_jvm_mb": run.used.peak_jvm_mb,
        "peak_python_mb": run.used.peak_python_mb,
        "peak_worker_mb": run.used.peak_worker_mb,
        "start_s": run.start_s,
        "warm_up_s": run.warm_up_s,
        "fixed_s": run.small_s,
    }
    if events != small_events:
        # What each event beyond the small trace takes.
        figures["cpu_us_per_event"] = 1e6 * (cpu_s - run.small_cpu_s) / (events - small_events)
    return figures if run.shuffle_bytes is None else {**figures, "shuffle_bytes": run.shuffle_bytes}


def summed_up(runs: Sequence[Mapping[Figure, float]]) -> PlanFigures:
    """Each figure over the runs of one plan; at least one run."""
    return {name: _spread([run[name] for run in runs]) for name in runs[0]}


def ratios(plans: Mapping[Name, PlanFigures]) -> dict[str, float]:
    """Those of `RATIOS` of which both plans were run, from medians."""
    return {
        name: plans[plan][figure].median / plans[over][figure].median
        for name, (plan, over, figure) in RATIOS.items()
        if plan in plans and over in plans
    }


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))
