"""Compiled code is kept by what it is made of, not by where its sources lie."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
from pathlib import Path
from dispatch_audit.pipeline.compilation.compiler import Compiler

@Compiler([Path(__file__)])
def doubled(number: int) -> int:
    return {factor} * number

if __name__ == "__main__":
    print(doubled(21), *doubled.stats.cache_hits.values())
"""


def run(folder: Path, home: Path, factor: int = 2) -> str:
    """Runs a copy of the same sources in a process of its own; returns the result, and how often the cache had it."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "compiled_here.py"
    source.write_text(SOURCE.format(factor=factor))
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    env |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(home)}
    command = [sys.executable, str(source)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600).stdout.strip()


@pytest.mark.heavy
def test_a_second_checkout_takes_what_the_first_one_compiled(tmp_path: Path) -> None:
    one, other, cache = (tmp_path / name for name in ("one/room", "other/room", "cache"))
    assert run(one, cache) == "42"
    assert run(other, cache) == "42 1"
    assert run(other, cache, factor=3) == "63"
