"""What is measured of processes that do a known amount of work."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.measure import ProcessTree

# Burns half a CPU second, asks to go on, and has a child burn another and hold 60 MB, until it is let go.
BURN = "import time\nwhile time.process_time() < 0.5: pass\n"
CHILD = f"held = bytes(range(256)) * 240_000\n{BURN}input()"
PARENT = f"""
import subprocess, sys
{BURN}
print("burnt", flush=True)
sys.stdin.readline()
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.heavy
def test_a_child_that_has_ended_counts_and_what_was_before_does_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        tree = ProcessTree(process.pid)
        tree.begin()
        steps: list[tuple[str, Callable[[], bool]]] = [
            ("go\n", lambda: tree.used().cpu_python_s >= 0.4),
            ("end\n", lambda: len(tree._processes()) == 1),
        ]
        for asked, is_done in steps:
            process.stdin.write(asked)
            process.stdin.flush()
            latest = time.monotonic() + 60
            while not is_done() and time.monotonic() < latest:
                time.sleep(0.02)
                tree.sample()
        used = tree.used()
        process.stdin.close()
    # With the parent's half second, which is from before, it would be more than a second. To start an interpreter takes
    # a few hundredths, or twice as many where another process shares the core.
    assert 0.4 <= used.cpu_python_s < 1.0
    assert used.cpu_jvm_s == 0
    assert used.peak_jvm_mb == 0
    assert 61 <= used.peak_worker_mb < 120
    assert used.peak_worker_mb < used.peak_python_mb == used.peak_memory_mb


def test_what_java_forks_is_java_whatever_it_is_called(tmp_path: Path) -> None:
    program = tmp_path / "java"
    shutil.copy(Path(sys.executable).resolve(), program)
    forked = "open('/proc/self/comm', 'w').write('Executor task')\nprint('called', flush=True)\ninput()"
    parent = f"import subprocess\nsubprocess.run([{str(program)!r}, '-c', {forked!r}], check=True)"
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONHOME": sys.base_prefix},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"called\n"
        tree = ProcessTree(process.pid)
        tree.begin()
        process.stdin.write(b"\n")
    assert tree.used().peak_jvm_mb > 0
    assert tree.used().peak_worker_mb == 0


def test_a_process_that_is_gone_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        tree = ProcessTree(process.pid)
        tree.begin()
    tree.sample()
    assert tree.used().peak_python_mb > 0
