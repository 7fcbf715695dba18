"""Reports the figures of the benchmark as one JSON object, or as tables."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, PlanFigures
from benchmarks.plan import Name

# Heading, figure, how much of the figure makes one of the heading's unit, decimals.
_LINES: tuple[tuple[str, Figure, float, int], ...] = (
    ("wall s", "wall_s", 1, 2),
    ("CPU s", "cpu_s", 1, 2),
    ("  of Java", "cpu_jvm_s", 1, 2),
    ("  of Python", "cpu_python_s", 1, 2),
    ("events/s", "events_per_s", 1, 0),
    ("events/CPU s", "events_per_cpu_s", 1, 0),
    ("peak MB", "peak_memory_mb", 1, 0),
    ("  of Java", "peak_jvm_mb", 1, 0),
    ("  of Python", "peak_python_mb", 1, 0),
    ("  of a worker", "peak_worker_mb", 1, 0),
    ("shuffled MB", "shuffle_bytes", 1e6, 1),
    ("start s", "start_s", 1, 1),
    ("warm-up s", "warm_up_s", 1, 1),
    ("fixed s", "fixed_s", 1, 2),
    ("CPU µs/event", "cpu_us_per_event", 1, 2),
)


def as_json(
    conditions: Mapping[str, int | str], plans: Mapping[Name, PlanFigures], ratios: Mapping[str, float]
) -> dict[str, object]:
    """One flat object: conditions and ratios by name, and an object for each plan.

    That of a plan has the median of each figure by its name, and below `spread` the lowest and the highest of it.
    """
    report: dict[str, object] = dict(conditions)
    for plan, figures in plans.items():
        medians: dict[str, object] = {name: spread.median for name, spread in figures.items()}
        spreads = {name: [spread.lowest, spread.highest] for name, spread in figures.items()}
        report[plan] = {**medians, "spread": spreads}
    return {**report, **ratios}


def print_tables(
    console: Console,
    conditions: Mapping[str, int | str],
    plans: Mapping[Name, PlanFigures],
    ratios: Mapping[str, float],
) -> None:
    """The medians with how far the runs lie apart, and the ratios."""
    console.print(", ".join(f"{name} {value}" for name, value in conditions.items()))
    table = Table("")
    for plan in plans:
        table.add_column(plan, justify="right")
    walls = [figures["wall_s"] for figures in plans.values()]
    table.add_row("wall s, from", *(f"{wall.lowest:,.2f}" for wall in walls))
    table.add_row("wall s, to", *(f"{wall.highest:,.2f}" for wall in walls))
    for heading, figure, unit, decimals in _LINES:
        table.add_row(heading, *(_cell(figures, figure, unit, decimals) for figures in plans.values()))
    console.print(table)
    for name, ratio in ratios.items():
        console.print(f"{name} {ratio:.2f}")


def _cell(figures: PlanFigures, figure: Figure, unit: float, decimals: int) -> str:
    return f"{figures[figure].median / unit:,.{decimals}f}" if figure in figures else "-"
