"""The lists of packages: what is installed by them is what pyproject.toml allows, and what runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"^([a-z0-9-]+)(?:\[[a-z]+\])?\s*([^;\\]*)(?:;([^\\]*))?", re.MULTILINE)


def pinned(name: str) -> dict[str, set[str]]:
    """The versions of each package in a list; several where they differ by version of Python."""
    found: dict[str, set[str]] = {}
    for package, version, _ in NAME.findall((ROOT / name).read_text()):
        found.setdefault(package, set()).add(version.strip().removeprefix("=="))
    return found


def asked() -> dict[str, str]:
    """The versions of each package that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    return {package: versions.strip() for package, versions, _ in map(_parts, wanted)}


def _parts(requirement: str) -> tuple[str, str, str]:
    found = NAME.match(requirement)
    assert found is not None, requirement
    return found[1].replace(".", "-"), found[2], found[3] or ""


def test_the_gate_has_both_ends_of_the_range_of_pyspark() -> None:
    oldest, newest = pinned("requirements/oldest-spark.txt"), pinned("requirements/gate.lock")
    ((low,), (high,)) = oldest["pyspark"], newest["pyspark"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["spark"]
    below = "{}.{}".format(major := high.split(".")[0], int(high.split(".")[1]) + 1)
    # Each Delta Lake that fits one of them: pip keeps both where both are there.
    assert wanted == [f"pyspark>={'.'.join(low.split('.')[:2])},<{below}", f"delta-spark>=3.3,<{int(major) + 1}"]


def test_installing_asks_for_no_spark_so_that_pip_keeps_the_one_that_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [of for of in project["dependencies"] if of.startswith(("pyspark", "delta-spark"))] == []


def test_the_embedded_engine_is_locked_without_pyspark_and_with_the_versions_of_the_gate() -> None:
    embedded, gate = pinned("requirements/embedded.lock"), pinned("requirements/gate.lock")
    assert embedded.keys().isdisjoint({"pyspark", "delta-spark", "py4j"})
    assert embedded.pop("pyspark-client") == gate["pyspark"]
    # For Windows only, where the gate does not run.
    embedded.pop("colorama", None)
    assert {package: gate.get(package) for package in embedded} == embedded
    needed = {name for name in asked() if name not in ("pyspark", "delta-spark", "backports", "backports-zstd")}
    assert needed <= embedded.keys()


def test_spark_is_locked_with_the_versions_of_the_gate_and_nothing_of_tests() -> None:
    spark, gate = pinned("requirements/spark.lock"), pinned("requirements/gate.lock")
    # For Windows only, where the gate does not run.
    spark.pop("colorama", None)
    assert {package: gate.get(package) for package in spark} == spark
    assert {"pyspark", "hatchling", "editables"} <= spark.keys()
    assert spark.keys().isdisjoint({"pytest", "ruff", "mypy", "playwright"})


def dry_run(goal: str, venv: Path) -> str:
    """What make would run for a goal, with options after it, where this is the virtual environment."""
    env = {name: value for name, value in os.environ.items() if name not in ("ENGINE", "MAKEFLAGS")}
    command = ["make", "--dry-run", *goal.split(), f"VENV={venv}"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("goal", "stamp", "current", "expected"),
    [
        ("demo", None, False, ["requirements/embedded.lock"]),
        ("demo", ".installed-embedded", True, []),
        ("demo", ".installed-embedded", False, ["requirements/embedded.lock"]),
        ("demo", ".installed", True, []),
        ("demo", ".installed", False, ["requirements/gate.lock"]),
        ("demo", ".installed-spark", True, ["requirements/embedded.lock"]),
        ("demo ENGINE=spark", None, False, ["requirements/spark.lock"]),
        ("demo ENGINE=spark", ".installed-embedded", True, ["requirements/spark.lock"]),
        ("demo ENGINE=spark", ".installed-spark", True, []),
        ("demo ENGINE=spark", ".installed-spark", False, ["requirements/spark.lock"]),
        ("demo ENGINE=spark", ".installed", True, []),
        ("lint", ".installed-embedded", True, ["requirements/gate.lock"]),
        ("lint", ".installed-spark", True, ["requirements/gate.lock"]),
        ("lint", ".installed", True, []),
        ("lint", ".installed", False, ["requirements/gate.lock"]),
    ],
)
def test_make_installs_what_a_goal_lacks(
    goal: str, stamp: str | None, current: bool, expected: list[str], tmp_path: Path
) -> None:
    if stamp is not None:
        (tmp_path / stamp).touch()
        if not current:
            os.utime(tmp_path / stamp, (0, 0))
    assert re.findall(r"--require-hashes -r (\S+\.lock)", dry_run(goal, tmp_path)) == expected


@pytest.mark.parametrize(("goal", "goes"), [("demo", "pyspark"), ("setup", "pyspark-client")])
def test_pyspark_and_its_client_are_never_installed_both(goal: str, goes: str, tmp_path: Path) -> None:
    uninstalls = rf"pip uninstall .* {goes}\n(?s:.*)pip install"
    assert re.search(uninstalls, dry_run(goal, tmp_path)) is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").touch()
    assert re.search(uninstalls, dry_run(goal, tmp_path))


@pytest.mark.slow
@pytest.mark.e2e
def test_an_installation_without_pyspark_audits_on_the_embedded_engine(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    lock = ("-m", "pip", "install", "-q", "--require-hashes", "-r", str(ROOT / "requirements/embedded.lock"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(python), *lock], check=True)

    def audited(engine: str) -> "subprocess.CompletedProcess[str]":
        command = [str(python), "-m", "dispatch_audit.jobs.program", "audit", "data/samples/heavy-churn-3.0.7"]
        options = ["--out", str(tmp_path / "out"), "--engine", engine, "--quiet"]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([*command, *options], cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    embedded, spark = audited("embedded"), audited("spark")
    assert (embedded.returncode, "13 findings of single_holder" in embedded.stdout) == (1, True), embedded.stderr
    assert spark.returncode == 2
    assert "Spark does not start from pyspark-client, which is a client only; install pyspark" in spark.stderr
