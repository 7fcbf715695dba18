"""Finds the runs of a target."""

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.tables import Tables, of_run


def chosen_run(tables: Tables, run_key: str | None) -> str:
    """Returns the key of a run: the one asked for, or the one that ended last.

    Raises:
        UsageError: there are no tables, no such run, or no run at all.
    """
    if tables.columns("runs") is None:
        raise UsageError(f"{tables.target} has no tables of an audit", "name the --out of an audit")
    if run_key is None:
        newest = tables.query("runs", "run_key", "ORDER BY ended_at_us DESC, run_key LIMIT 1")
        if not newest:
            raise UsageError(f"{tables.target} has no complete run", "audit a trace into it")
        return str(newest[0]["run_key"])
    # Keys are hexadecimal; anything else cannot be one, and must not become part of a query.
    if run_key.isalnum() and tables.query("runs", "run_key", f"WHERE {of_run(run_key)} LIMIT 1"):
        return run_key
    newest = tables.query("runs", "run_key", "ORDER BY ended_at_us DESC, run_key LIMIT 3")
    known = ", ".join(str(row["run_key"]) for row in newest)
    raise UsageError(f"{tables.target} has no run {run_key}", f"leave --run out, or take one of its runs: {known}")
