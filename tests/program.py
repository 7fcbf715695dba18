"""The command line as a process of its own, as a shell starts it."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("dispatch-audit")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with more variables in its environment."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=600,
    )
