"""The fixture `audit_trace`, in a run of pytest as another project has it."""

from pathlib import Path

import pytest
from other_project import run_tests
from samples import SAMPLES

TESTS = f"""
SAMPLE = "{SAMPLES / "heavy-churn-3.0.7"}"

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


@pytest.mark.e2e
def test_a_test_fails_with_the_text_of_the_incident(tmp_path: Path) -> None:
    done = run_tests(tmp_path, TESTS)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "known bug (F2, F4 (#23307))  single_holder: 13 entries, one join of flap104" in done.stdout
    assert "UsageError: there is no trace at nowhere; name a folder, a log or catalog.schema.table" in done.stdout


def test_a_run_that_does_not_use_it_imports_nothing(tmp_path: Path) -> None:
    done = run_tests(tmp_path, OF_OTHERS, "-W", "error")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
