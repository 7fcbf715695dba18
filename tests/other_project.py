"""Tests of another project, which has this package as a plugin of pytest."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# An installed wheel lists its modules, and pytest rewrites the assertions of those of plugins.
CONFTEST = """
import pytest
pytest.register_assert_rewrite("dispatch_audit")
"""


def run_tests(folder: Path, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Runs pytest for a module, in a process of its own.

    Args:
        folder: gets the module.
        tests: its text.
        options: of pytest.
    """
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_of_project.py").write_text(tests)
    # Only this plugin, by its entry point; those of this repository's environment are not there elsewhere.
    env = {**os.environ, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "dispatch_audit", *options]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600)
