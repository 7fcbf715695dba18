"""The command line as a process: an embedded engine is started once in a process."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("dispatch-audit")


def run(*arguments: object) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, stdout and stderr."""
    command = [str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def run_embedded(command: str, *arguments: object) -> tuple[int, str, str]:
    """Runs a command on the embedded engine."""
    return run(command, *arguments, "--engine", "embedded", "--quiet")
