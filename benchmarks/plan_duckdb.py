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
        # Numbers in the place of texts, and each part of the files read once: half of the CPU time of views.
        sent = two_rules.sent("events", "hash(topic)", "hash(topic, key)")
        engine.execute(f"CREATE OR REPLACE TEMP TABLE sent AS {sent}")
        engine.execute(f"CREATE OR REPLACE TEMP TABLE acked AS {two_rules.acked('events', 'unnest', 'hash(topic)')}")
        rules = (two_rules.FIRST_DELIVERY_ORDER, two_rules.SINGLE_HOLDER)
        broken = Broken(*(_count(engine, two_rules.counted(rule)) for rule in rules))
        return broken._asdict

    return run


def _count(engine: duckdb.DuckDBPyConnection, query: str) -> int:
    # All rows of the one: DuckDB refuses other work while a result may hold more.
    ((count,),) = engine.execute(query).fetchall()
    return int(count)
