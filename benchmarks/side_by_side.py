"""The audit beside plans that do less, in one run: floors of Spark, and two of its rules in three engines.

    .venv/bin/python -m benchmarks.side_by_side --events 12000000 --json

A round runs each plan once, in a fresh process with a warmed-up engine, and each round begins with another plan, so
that what else the machine does meets all of them. Figures are medians over the rounds; docs/FIGURES.md has those that
were measured.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.baseline import STORED, load_baseline, save_baseline
from benchmarks.figures import PlanFigures, figures_of, ratios, summed_up
from benchmarks.generate import Order, Shape
from benchmarks.plan import ON_SPARK, PLANS, READS_TRACES, EngineName, Name
from benchmarks.report import as_json, print_tables
from benchmarks.runs import in_rotation, require_equal_work, run_once
from benchmarks.stored_as import Source
from benchmarks.traces import require_trace, rows_in
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError

# Enough for each plan to compile what it runs, and for every group to have rows.
_WARM_UP_EVENTS = 20_000
_COLUMNAR: frozenset[Source] = frozenset({"parquet", "delta"})


def main(
    events: Annotated[int, typer.Option(min=1, help="Rows of the trace, about.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each plan is run.")] = 3,
    source: Annotated[Source, typer.Option(help="As what the log is stored.")] = "parquet",
    engine: Annotated[
        EngineName, typer.Option(help="Of the audit and its own plan; the others run on one each.")
    ] = "spark",
    order: Annotated[Order, typer.Option(help="Of the rows in the files.")] = "random",
    partitions: Annotated[int, typer.Option(min=1, help="Topic partitions.")] = 8,
    consumers: Annotated[int, typer.Option(min=1, help="Consumers of each partition, at the start.")] = 10,
    keys: Annotated[int, typer.Option(min=1, help="Keys of each partition.")] = 10_000,
    changes: Annotated[int, typer.Option(min=0, help="Joins and leaves on each partition.")] = 20,
    only: Annotated[list[str] | None, typer.Option(metavar="PLAN", help="Run this plan; may be repeated.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Use the trace that is there, or leave it there.")
    ] = None,
    print_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    check: Annotated[bool, typer.Option(help="Exit with 1 if a ratio is worse than the baseline allows.")] = False,
    save: Annotated[bool, typer.Option("--save-baseline", help="Store the ratios as the baseline.")] = False,
    baseline: Annotated[Path, typer.Option(metavar="FILE", help="The baseline.")] = STORED,
) -> None:
    """Measures the audit beside plans that do less."""
    if unknown := set(only or ()).difference(PLANS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; there are {', '.join(PLANS)}", param_hint="--only")
    shape = Shape(events, partitions, consumers, keys, changes, order=order)
    wanted: dict[str, int | str] = {
        "events": events,
        "source": source,
        "engine": engine,
        "order": order,
        "partitions": partitions,
        "consumers": consumers,
        "keys": keys,
        "changes": changes,
    }
    try:
        expected = load_baseline(baseline, wanted) if check else None
        rows, plans = _measured(shape, source, trace, _plans(only or (), source, engine), rounds, engine)
        found = ratios(plans)
        conditions: dict[str, int | str] = {**wanted, "events": rows, "rounds": rounds, "cores": _cores()}
        if print_json:
            print(json.dumps(as_json(conditions, plans, found)))  # noqa: T201 - its output
        else:
            print_tables(Console(), conditions, plans, found)
        if save:
            save_baseline(baseline, wanted, found)
        regressions = expected.regressions(found) if expected is not None else []
    except DispatchAuditError as error:
        typer.echo(f"side_by_side: error: {error}", err=True)
        raise typer.Exit(2) from None
    for regression in regressions:
        typer.echo(f"side_by_side: regression: {regression}", err=True)
    if regressions:
        raise typer.Exit(1)


def _plans(only: Sequence[str], source: Source, engine: EngineName) -> list[Name]:
    """Returns the plans to run: those that were asked for, or all that can be run.

    Raises:
        UsageError: one was asked for that cannot be run.
    """
    obstacles = {plan: _obstacle(plan, source, engine) for plan in PLANS}
    for plan, obstacle in obstacles.items():
        if plan in only and obstacle is not None:
            raise obstacle
    return [plan for plan, obstacle in obstacles.items() if obstacle is None and (not only or plan in only)]


def _obstacle(plan: Name, source: Source, engine: EngineName) -> UsageError | None:
    if plan in ON_SPARK and engine != "spark":
        return UsageError(f"{plan} runs on Spark only", "pass --engine spark")
    if plan not in READS_TRACES and source not in _COLUMNAR:
        return UsageError(f"{plan} reads Parquet files only", "pass --source parquet or delta")
    return None


def _measured(
    shape: Shape, source: Source, folder: Path | None, names: Sequence[Name], rounds: int, engine: EngineName
) -> tuple[int, dict[Name, PlanFigures]]:
    """Rows of the trace, and the figures of each plan."""
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as scratch:
        trace = Path(scratch) / "trace" if folder is None else folder.absolute()
        require_trace(trace, shape, source)
        # A trace that is small itself is the one to warm up on, too.
        warm_up = trace if shape.events <= _WARM_UP_EVENTS else Path(scratch) / "warm-up"
        require_trace(warm_up, replace(shape, events=min(shape.events, _WARM_UP_EVENTS)), source)
        rows, small = rows_in(trace), rows_in(warm_up)
        runs = []
        for number in range(rounds):
            for name in in_rotation(names, number):
                run = run_once(name, warm_up, trace, engine)
                typer.echo(f"round {number + 1} of {rounds}: {name} {run.wall_s:.1f} s", err=True)
                runs.append(run)
        require_equal_work(runs, rows)
    return rows, {
        name: summed_up([figures_of(run, rows, _cores(), small) for run in runs if run.plan == name]) for name in names
    }


def _cores() -> int:
    # As the session does, which takes it for the number of its tasks.
    return os.cpu_count() or 1


if __name__ == "__main__":
    typer.run(main)
