"""The process that runs one plan: `python -m benchmarks.child PLAN ENGINE WARM_UP TRACE SCRATCH`.

It starts the engine, runs the plan on a small trace (to start workers and compile code), on that trace once more, and
on the large one. It writes a line of JSON to stdout for each step, so that the parent process knows when to measure;
before both measured steps it waits for a line on stdin, and at the end for the end of stdin.
"""
# ruff: noqa: PLC0415 - a plan without Spark must not carry Spark's memory, and no plan that of the others

import json
import sys
import time
from pathlib import Path
from typing import cast

from benchmarks.plan import Engine, EngineName, Found, Name, Run


def started(name: Name, engine: EngineName, trace: Path) -> Engine:
    """A plan with an engine that suits a trace."""
    if name == "duckdb":
        from benchmarks import plan_duckdb

        return plan_duckdb.started()
    if name == "polars":
        from benchmarks import plan_polars

        return plan_polars.started()
    from benchmarks import plans_spark

    return plans_spark.started(name, engine, trace)


def main(name: Name, engine_name: EngineName, warm_up: Path, trace: Path, scratch: Path) -> None:
    """Runs one plan; `benchmarks.runs` is at the other end."""
    engine = started(name, engine_name, trace)
    _say({"step": "started"})
    engine.prepare(warm_up, scratch / "warm-up")()
    small = engine.prepare(warm_up, scratch / "small")
    _say({"step": "warm"})
    _measured(small)
    run = engine.prepare(trace, scratch / "measured")
    shuffled = engine.shuffled_bytes()
    _say({"step": "ready"})
    wall_s, found = _measured(run)
    total = engine.shuffled_bytes()
    shuffle_bytes = None if shuffled is None or total is None else total - shuffled
    _say({"step": "result", "wall_s": wall_s, "shuffle_bytes": shuffle_bytes, "found": dict(found())})
    sys.stdin.read()


def _measured(run: Run) -> tuple[float, Found]:
    """Runs when the other end says so; returns the wall seconds, and the result."""
    sys.stdin.readline()
    begin = time.monotonic()
    found = run()
    wall_s = time.monotonic() - begin
    _say({"step": "done", "wall_s": wall_s})
    return wall_s, found


def _say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - its output


if __name__ == "__main__":
    main(cast(Name, sys.argv[1]), cast(EngineName, sys.argv[2]), *map(Path, sys.argv[3:6]))
