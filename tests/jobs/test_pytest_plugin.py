"""The fixture `audit_trace`, in a run of pytest as another project has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# An installed wheel lists its modules, and pytest rewrites the assertions of those of plugins.
CONFTEST = """
import pytest
pytest.register_assert_rewrite("dispatch_audit")
"""
TESTS = f"""
SAMPLE = "{ROOT / "data" / "samples" / "heavy-churn-3.0.7"}"

def test_fails(audit_trace):
    audit_trace(SAMPLE, engine="embedded")

def test_passes(audit_trace):
    result = audit_trace(SAMPLE, engine="embedded", fail_on="held-up:30s")
    assert result.table("violations").num_rows == 13

def test_raises(audit_trace):
    audit_trace("nowhere")
"""
OF_OTHERS = """
import sys

def test_something_else():
    heavy = ("pyspark", "pyarrow", "numba", "pandas", "dispatch_audit.pipeline")
    assert [name for name in sys.modules if name.startswith(heavy)] == []
"""


def run(folder: Path, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_of_project.py").write_text(tests)
    # Only this plugin, by its entry point; those of this repository's environment are not there elsewhere.
    env = {**os.environ, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "dispatch_audit", *options]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.e2e
def test_a_test_fails_with_the_text_of_the_incident(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "known bug (F2, F4 (#23307))  single_holder: 13 entries, one join of flap104" in done.stdout
    assert "UsageError: there is no trace at nowhere; name a folder, a log or catalog.schema.table" in done.stdout


def test_a_run_that_does_not_use_it_imports_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, OF_OTHERS, "-W", "error")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
