"""The two rules of `benchmarks.two_rules` in DuckDB, over the Parquet files; of a Delta table too."""

from pathlib import Path

import duckdb

from benchmarks import two_rules
from benchmarks.plan import Engine, Found, Run, files_in
from benchmarks.two_rules import Broken


def started() -> Engine:
    """The plan, with a database in memory."""
    engine = duckdb.connect()
    return Engine(lambda trace, _: _prepared(engine, trace), lambda: None)


def _prepared(engine: duckdb.DuckDBPyConnection, trace: Path) -> Run:
    engine.read_parquet(str(files_in(trace))).create_view("events", replace=True)

    def run() -> Found:
        rules = (two_rules.first_delivery_order("events"), two_rules.single_holder("events", "unnest"))
        broken = Broken(*(_count(engine, rule) for rule in rules))
        return broken._asdict

    return run


def _count(engine: duckdb.DuckDBPyConnection, query: str) -> int:
    # All rows of the one: DuckDB refuses other work while a result may hold more.
    ((count,),) = engine.execute(query).fetchall()
    return int(count)
