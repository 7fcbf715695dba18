"""The examples of docs/API.md run and print what the page shows, and a program that uses them has types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatch_audit.pipeline.cache_folder import cache_folder

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own, because the embedded engine and the classic client do not share one.
RUN = """
import doctest, re, sys
from pathlib import Path
blocks = re.findall(r"^```python\\n(.*?)^```$", Path(sys.argv[1]).read_text(), re.M | re.S)
test = doctest.DocTestParser().get_doctest("\\n".join(blocks), {}, "API.md", sys.argv[1], 0)
sys.exit(doctest.DocTestRunner().run(test).failed or not test.examples)
"""
PROGRAM = """
from datetime import datetime
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import dispatch_audit


def nightly(spark: SparkSession, since: datetime) -> list[str]:
    try:
        result: dispatch_audit.Audit = dispatch_audit.audit(
            [Path("a"), "b"], out=Path("tables"), spark=spark, begin_at=since, fail_on="held-up:30s"
        )
    except dispatch_audit.DispatchAuditError as error:
        return [str(error), error.way_out, str(error.exit_code)]
    frame: pd.DataFrame = result.pandas("violations")
    seconds: float = result.held_up_seconds
    answer: dispatch_audit.Diagnoses = dispatch_audit.diagnose("dump.json")
    story: dispatch_audit.Explained = dispatch_audit.explain("tables", violation="ab")
    compared: dispatch_audit.Comparison = dispatch_audit.what_if("a", search=["maxUnackedMessagesPerConsumer"])
    texts = [answer.report(), story.report("json"), compared.report("markdown"), result.report("html"), str(seconds)]
    return [finding.rule for finding in result.findings] + texts + list(frame.columns)
"""


@pytest.mark.e2e
def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    env = {**os.environ, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, str(ROOT / "docs" / "API.md")]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def strictly_checked(program: str, folder: Path) -> str:
    """What mypy says of a program outside of this repository."""
    (folder / "program.py").write_text(program)
    cache = cache_folder("mypy-of-programs")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout


@pytest.mark.heavy
def test_a_program_from_outside_has_types(tmp_path: Path) -> None:
    assert strictly_checked(PROGRAM, tmp_path) == "Success: no issues found in 1 source file\n"
    wrong = strictly_checked(PROGRAM.replace("seconds: float", "seconds: str"), tmp_path)
    assert 'expression has type "float", variable has type "str"' in wrong


def test_importing_the_package_imports_nothing_of_it() -> None:
    command = "import sys, dispatch_audit; print([name for name in sys.modules if name.startswith('dispatch_audit.')])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
