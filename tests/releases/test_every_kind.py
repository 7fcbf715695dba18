"""Each kind of audit on Spark, by the Python API, has the rows of the embedded engine.

`make test-oldest-spark` runs it on the oldest Spark, as part of `.ci/run`; `make test-slow` on the newest, and by
`test_environments.py` on each in an environment of its own. Of the newest the gate compares rows, windows, refused rows
and conversions with those of the embedded engine, each in a test of its own.
"""

from pathlib import Path

import every_kind
import pytest
from embedded_commands import EmbeddedCommands
from kinds_of_embedded import assert_equal_rows, audit_embedded
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.slow]


def test_every_kind_of_audit_has_the_rows_of_the_embedded_engine(
    spark: SparkSession, run_embedded: EmbeddedCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark, embedded = tmp_path / "spark", tmp_path / "embedded"
    for folder in (on_spark, embedded):
        folder.mkdir()
    monkeypatch.chdir(embedded)
    audit_embedded(run_embedded, embedded)
    monkeypatch.chdir(on_spark)
    every_kind.run_every_kind(spark, on_spark)
    assert_equal_rows(on_spark, embedded)
