"""How the cost of an audit grows: one property of a trace after the other, over a factor of sixteen or more.

    .venv/bin/python -m benchmarks.sizing --events 3000000

Prints one JSON object: for each property the traces that were audited and what that took. docs/FIGURES.md has what was
measured, and what follows from it.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import Figure, figures_of, summed_up
from benchmarks.generate import Shape
from benchmarks.runs import run_once
from benchmarks.traces import require_trace, rows_in

# Each over a factor of sixteen, but partitions up to what a cluster has; everything else as in the first trace.
_GROWN: Mapping[str, tuple[int, ...]] = {
    "partitions": (4, 16, 64, 400, 4_000),
    "consumers": (5, 20, 80),
    "keys": (1_000, 4_000, 16_000),
    "changes": (8, 32, 128),
}
_EVENTS = (1, 4, 16)
_IN_ONE_GROUP = (1, 4, 20)
_REPORTED: tuple[Figure, ...] = ("wall_s", "cpu_s", "cpu_jvm_s", "cpu_python_s", "events_per_s", "peak_worker_mb")


def shapes(events: int) -> Iterator[tuple[str, int, Shape]]:
    """Name of a property, its value, and a trace that has it; in the order of time, as logs are.

    Args:
        events: of the traces in which something else grows; their own number grows to five times that.
    """
    usual = Shape(events=events, order="time")
    for times in _EVENTS:
        yield "events", events * times // 3, replace(usual, events=events * times // 3)
    for times in _IN_ONE_GROUP:
        yield "events_in_one_group", events * times // 3, replace(usual, events=events * times // 3, partitions=1)
    for name, values in _GROWN.items():
        for value in values:
            yield name, value, _with(usual, name, value)


def _with(shape: Shape, name: str, value: int) -> Shape:
    match name:
        case "partitions":
            return replace(shape, partitions=value)
        case "consumers":
            return replace(shape, consumers=value)
        case "keys":
            return replace(shape, keys=value)
        case _:
            return replace(shape, changes=value)


def main(
    events: Annotated[int, typer.Option(min=100, help="Rows of most traces, about.")] = 3_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each trace is audited.")] = 1,
    only: Annotated[list[str] | None, typer.Option(metavar="PROPERTY", help="Grow this; may be repeated.")] = None,
) -> None:
    """Measures how the cost of an audit grows."""
    by_property: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="sizing-") as scratch:
        for number, (name, value, shape) in enumerate(shapes(events)):
            if only and name not in only:
                continue
            trace, warm_up = Path(scratch) / f"trace-{number}", Path(scratch) / f"warm-up-{number}"
            require_trace(trace, shape, "parquet")
            require_trace(warm_up, replace(shape, events=20_000), "parquet")
            rows, small = rows_in(trace), rows_in(warm_up)
            runs = [figures_of(run_once("audit", warm_up, trace), rows, 1, small) for _ in range(rounds)]
            figures = summed_up(runs)
            found = {str(figure): round(figures[figure].median, 2) for figure in _REPORTED}
            by_property.setdefault(name, []).append({name: value, "rows": rows, **found})
            typer.echo(f"{name} {value}: {found['wall_s']} s, {found['cpu_s']} CPU s", err=True)
    print(json.dumps(by_property, indent=1))  # noqa: T201 - its output


if __name__ == "__main__":
    typer.run(main)
