"""What fits together: Spark, Delta Lake, Scala and Python; and what is said of what does not."""

import os
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from dispatch_audit.jobs.engines import releases
from dispatch_audit.jobs.engines.releases import (
    connect_package,
    delta_package,
    require_fitting_delta,
    require_supported,
)
from dispatch_audit.pipeline.errors import UsageError


@pytest.mark.parametrize("version", ["3.5.0", "3.5.7", "4.0.1", "4.1.0.dev0", "4.2.0", "4.9.1"])
def test_releases_that_are_known_or_later_are_taken(version: str) -> None:
    require_supported(version)


@pytest.mark.parametrize("version", ["2.4.8", "3.3.4", "3.4.4"])
def test_an_old_release_is_refused_by_its_name(version: str) -> None:
    with pytest.raises(UsageError, match=f"^Spark {version} is too old: the audit runs on Spark 3.5, 4.0, "):
        require_supported(version)


def here(monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, delta: str = "") -> None:
    def installed(name: str) -> str:
        if not delta:
            raise PackageNotFoundError(name)
        return delta

    monkeypatch.setattr(releases, "pyspark_version", lambda: spark)
    monkeypatch.setattr(releases, "scala_version", lambda: scala)
    monkeypatch.setattr(releases, "version", installed)


@pytest.mark.parametrize(
    ("spark", "scala", "package"),
    [
        ("3.5.7", "2.12", "io.delta:delta-spark_2.12:3.3.2"),
        ("3.5.7", "2.13", "io.delta:delta-spark_2.13:3.3.2"),
        ("4.0.1", "2.13", "io.delta:delta-spark_2.13:4.0.0"),
        ("4.1.0", "2.13", "io.delta:delta-spark_4.1_2.13:4.4.0"),
        ("4.2.0", "2.13", "io.delta:delta-spark_4.2_2.13:4.4.0"),
    ],
)
def test_the_package_is_that_of_spark_and_scala(
    monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, package: str
) -> None:
    here(monkeypatch, spark, scala)
    assert delta_package() == package
    # Ivy names a jar so.
    require_fitting_delta([f"/jars/{package.replace(':', '_', 1).replace(':', '-')}.jar"])


@pytest.mark.parametrize(
    ("spark", "scala", "installed", "package"),
    [
        ("3.5.7", "2.12", "3.3.3", "io.delta:delta-spark_2.12:3.3.3"),
        ("3.5.7", "2.12", "4.4.0", "io.delta:delta-spark_2.12:3.3.2"),
        ("4.2.0", "2.13", "4.4.1", "io.delta:delta-spark_4.2_2.13:4.4.1"),
    ],
)
def test_an_installed_delta_spark_says_which_patch_release(
    monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, installed: str, package: str
) -> None:
    here(monkeypatch, spark, scala, installed)
    assert delta_package() == package


@pytest.mark.parametrize(
    ("jar", "package"),
    [
        ("spark-core_2.12-3.5.7.jar", "org.apache.spark:spark-connect_2.12:3.5.7"),
        ("spark-connect_2.13-4.0.1.jar", None),
    ],
)
def test_the_server_of_spark_connect_is_fetched_where_spark_lacks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jar: str, package: str | None
) -> None:
    here(monkeypatch, "3.5.7", "2.12")
    monkeypatch.setattr(releases, "spark_jars", lambda: tmp_path)
    (tmp_path / jar).touch()
    assert connect_package() == package


@pytest.mark.parametrize(("runtime", "taken"), [(None, False), ("16.4", True)])
def test_a_spark_that_needs_distutils_is_taken_where_databricks_brings_it(
    monkeypatch: pytest.MonkeyPatch, runtime: str | None, taken: bool
) -> None:
    monkeypatch.setattr(releases, "find_spec", lambda name: None)
    if runtime:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", runtime)
    with nullcontext() if taken else pytest.raises(UsageError, match=r"pip install setuptools, or use Python 3\.11$"):
        require_supported("3.5.2")


@pytest.mark.parametrize(
    ("spark", "scala", "jar"),
    [
        ("3.5.7", "2.12", "delta-spark_2.13-3.3.2.jar"),
        ("3.5.7", "2.12", "delta-spark_2.12-4.0.0.jar"),
        ("3.5.7", "2.12", "delta-core_2.12-2.4.0.jar"),
        ("4.0.1", "2.13", "delta-spark_2.13-3.3.2.jar"),
        ("4.0.1", "2.13", "delta-spark_4.1_2.13-4.4.0.jar"),
        ("4.2.0", "2.13", "delta-spark_4.1_2.13-4.4.0.jar"),
    ],
)
def test_jars_for_another_spark_or_scala_are_named(
    monkeypatch: pytest.MonkeyPatch, spark: str, scala: str, jar: str
) -> None:
    here(monkeypatch, spark, scala)
    with pytest.raises(UsageError, match=f"^{jar} does not fit Spark {spark} with Scala {scala}; take io.delta:"):
        require_fitting_delta(["/opt/other.jar", f"file:///jars/{jar}"])


def test_an_old_spark_ends_the_program_before_it_imports_what_that_lacks(tmp_path: Path) -> None:
    """A stand-in with nothing but a version, as parts of PySpark 3.3 are missing."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.3.4"\n')
    command = [sys.executable, "-m", "dispatch_audit.jobs.program", "audit", "trace", "--out", str(tmp_path / "out")]
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).resolve().parents[3])))
    before = os.times()
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    after = os.times()
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("dispatch-audit: error: Spark 3.3.4 is too old")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
    took = after.children_user + after.children_system - before.children_user - before.children_system
    assert took < 2, took
