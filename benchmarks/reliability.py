"""Tests whether an audit survives disturbances: `python -m benchmarks.reliability --kills 20 --json`.

Each option names a part of `benchmarks.reliability_parts` and the number of tries; each part returns figures.
"""

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.reliability_parts.at_one_time import at_one_time as try_at_one_time
from benchmarks.reliability_parts.audited import Means, WayName
from benchmarks.reliability_parts.bad_rows import bad_rows as try_bad_rows
from benchmarks.reliability_parts.cuts import cuts as try_cuts
from benchmarks.reliability_parts.kills import kills as try_kills
from benchmarks.reliability_parts.lost_workers import lost_workers
from benchmarks.reliability_parts.memory import group_memory
from benchmarks.reliability_parts.state_size import state_size
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.pipeline.errors import DispatchAuditError


def main(
    kills: Annotated[int, typer.Option(min=0, help="Audits to kill at random moments and run again.")] = 0,
    cuts: Annotated[int, typer.Option(min=0, help="Recordings to cut into windows at random moments.")] = 0,
    bad_rows: Annotated[int, typer.Option(min=0, help="Rows of a recording to spoil.")] = 0,
    group_events: Annotated[
        list[int] | None, typer.Option(min=1, help="Events of a group, to see its worker's memory; may be repeated.")
    ] = None,
    open_entries: Annotated[
        list[int] | None, typer.Option(min=1, help="Entries open at a window's end, to see its state; may be repeated.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=0, help="Times that two processes audit one window at one time.")] = 0,
    cluster: Annotated[int, typer.Option(min=0, help="Audits on a cluster that loses a worker meanwhile.")] = 0,
    engine: Annotated[EngineOption, typer.Option(help="Of the audits.")] = "auto",
    way: Annotated[WayName, typer.Option(help="In which their tables are written.")] = "delta-rs",
    seed: Annotated[int, typer.Option(help="Of what is chosen at random.")] = 0,
    print_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Disturbs audits and looks whether their tables are right in the end."""
    figures: dict[str, Any] = {"seed": seed, "engine": engine, "way": way}
    means = Means(engine, way)
    try:
        if kills:
            figures |= try_kills(means, kills, seed)
        if pairs:
            figures |= try_at_one_time(means, pairs, seed)
        if cuts:
            with tempfile.TemporaryDirectory() as folder:
                figures |= try_cuts(means, Path(folder), cuts, seed)
        if bad_rows:
            with tempfile.TemporaryDirectory() as folder:
                figures |= try_bad_rows(means, Path(folder, "spoilt"), bad_rows, seed)
        if group_events:
            with tempfile.TemporaryDirectory() as folder:
                figures |= group_memory(Path(folder), group_events)
        if open_entries:
            with tempfile.TemporaryDirectory() as folder:
                figures |= state_size(means, Path(folder), open_entries)
        if cluster:
            with tempfile.TemporaryDirectory() as folder:
                figures |= lost_workers(means.session(), Path(folder), cluster)
    except DispatchAuditError as error:
        typer.echo(f"reliability: error: {error}", err=True)
        raise typer.Exit(2) from None
    if print_json:
        print(json.dumps(figures))  # noqa: T201 - its output
    else:
        Console().print("\n".join(f"{name} {figure}" for name, figure in figures.items()))


if __name__ == "__main__":
    typer.run(main)
