"""One audit of each kind on a session of Spark: each goes another way through what differs between releases.

    python tests/releases/every_kind.py FOLDER

It needs the package and Spark, and nothing of the tests, so that it runs in an environment of a release by itself; the
gate runs it on the session of the tests.
"""

import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import dispatch_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "samples" / "heavy-churn-3.0.7"
RECORDED = "recorded"
"""The sample, by a name that is the same for every engine: the key of a run is made of it."""
PROFILE = "pulsar-3.0.7"
CUT = "2026-11-21T01:43:20Z"
"""Where the first window ends, in the middle of the trace."""
TABLES, CATALOG, REPORTS = "tables", "catalog", "reports.json"


def run_every_kind(spark: "SparkSession", folder: Path) -> None:
    """Audits the sample in all ways, in the working directory.

    Args:
        spark: a session with Delta Lake.
        folder: the working directory. It gets the tables of an audit into a folder (`TABLES`), those of two windows of
            a table into a catalog (`CATALOG`), and what `convert` and `validate` print as JSON (`REPORTS`).
    """
    shutil.copytree(SAMPLE, RECORDED)
    dispatch_audit.audit(RECORDED, out=TABLES, spark=spark)
    spark.sql(f"CREATE SCHEMA every_kind LOCATION '{folder / CATALOG}'")
    catalog = "spark_catalog.every_kind"
    events = f"{catalog}.trace_events"
    reports = [command("convert", RECORDED, "--to", events)]
    # Rows of a table come through Spark; the second window starts from the checkpoint of the first.
    dispatch_audit.audit(events, out=catalog, profile=PROFILE, spark=spark, end_at=CUT)
    dispatch_audit.audit(events, out=catalog, profile=PROFILE, spark=spark, begin_at=CUT)
    reports.append(command("validate", events, "--profile", PROFILE))
    (folder / REPORTS).write_text(json.dumps(reports))


def command(*arguments: str) -> object:
    """Returns what a command prints as JSON; it runs on the active session."""
    from dispatch_audit.jobs.cli import main

    with redirect_stdout(StringIO()) as printed:
        code: object = None
        try:
            main([*arguments, "--format", "json", "--quiet"])
        except SystemExit as end:
            code = end.code
    assert not code, (arguments, code)
    report: object = json.loads(printed.getvalue())
    return report


if __name__ == "__main__":
    from dispatch_audit.jobs.session import spark_session

    os.chdir(sys.argv[1])
    run_every_kind(spark_session("every kind", engine="spark"), Path.cwd())
