"""A test of one release does not ask whether the broker of another is built."""

import os
import subprocess
import sys
from pathlib import Path

# Starts no broker: what a test of a release that is built comes to here.
NO_REAL_JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
"""
TESTS = "tests/recorder/test_witness.py::test_nothing_else_is_found"


def test_only_tests_of_a_release_that_is_not_built_are_left_out(tmp_path: Path) -> None:
    built = tmp_path / "brokers" / "3.0.7"
    built.mkdir(parents=True)
    (built / "test-broker.args").touch()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(NO_REAL_JAVA)
    java.chmod(0o755)
    environment = {
        **os.environ,
        "JAVA_HOME": str(tmp_path),
        "PATH": f"{java.parent}{os.pathsep}{os.environ['PATH']}",
        "DISPATCH_AUDIT_TEST_BROKERS": str(built.parent),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not slow",
        "-ra",
        TESTS,
    ]
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, timeout=300, check=False)
    assert "1 skipped, " in run.stdout
    assert "there is no test broker of Pulsar 4.2.4; make recorder-broker PULSAR=4.2.4 builds it" in run.stdout
    assert "1 error in " in run.stdout
    assert "the broker did not start" in run.stdout
