"""What a terminal shows: lines of its width, progress with numbers, and completion of names."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Final

import pytest

from dispatch_audit.pipeline.run.stages import of_several
from dispatch_audit.pipeline.simulate.variants import variants_for

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = Path(sys.executable).with_name("dispatch-audit")
SAMPLES: Final = ("heavy-churn-3.0.7", "join-leave-4.0.8")
_STEERING: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_a_terminal(width: int, *arguments: object) -> str:
    """What a command writes to a terminal of a width, as it arrives there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nonexistent"}
    command = [str(PROGRAM), *map(str, arguments)]
    written = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=ROOT) as process:
        os.close(theirs)
        # Reading fails once nobody has the other end open.
        try:
            while part := os.read(ours, 1 << 16):
                written += part
        except OSError:
            pass
        assert process.wait() == 0
    os.close(ours)
    return written.decode()


@pytest.mark.e2e
@pytest.mark.heavy
def test_a_terminal_gets_lines_of_its_width_and_progress_by_trace(tmp_path: Path) -> None:
    traces = [f"data/samples/{name}" for name in SAMPLES]
    written = in_a_terminal(90, "audit", *traces, "--out", tmp_path / "tables", "--fail-on", "never")
    for number in (1, 2):
        assert f"trace {number} of 2: replay" in written
    # What was shown of the progress is taken back at the beginning of the line.
    shown = [_STEERING.sub("", line).rpartition("\r")[2] for line in written.split("\r\n")]
    report = shown[next(at for at, line in enumerate(shown) if line.startswith("Tables ")) :]
    assert [line for line in report if len(line) > 90 and "dispatch-audit explain" not in line] == []
    # A sentence that is longer than the line goes on in its column.
    at = next(at for at, line in enumerate(report) if line.startswith("  what     entry 1:1196"))
    assert report[at + 1].startswith(" " * 11)
    assert "PROGRESS  FLOWING" in "".join(report[-24:])


@pytest.mark.e2e
def test_a_diagnosis_has_lines_of_the_width_of_the_terminal_too() -> None:
    written = in_a_terminal(80, "diagnose", "data/statistics/23429-draining", "--fail-on", "never")
    lines = [_STEERING.sub("", line) for line in written.split("\r\n")]
    # The table of consumers is not wrapped.
    assert [line for line in lines if len(line) > 80 and not line.startswith("  c")] == []
    at = next(at for at, line in enumerate(lines) if line.startswith("Certain  c1 holds 10 entries"))
    assert lines[at + 1].startswith(" " * 9)


@pytest.mark.e2e
def test_the_list_of_commands_says_in_whole_sentences_what_each_does() -> None:
    commands = in_a_terminal(80, "-h").rpartition("Commands:")[2].split("\r\n")
    assert "  init          Writes a small trace to start from by hand." in commands
    assert [line for line in commands if line.endswith("...")] == []


@pytest.mark.e2e
@pytest.mark.heavy
def test_a_comparison_says_how_many_dispatchers_are_done() -> None:
    written = in_a_terminal(90, "what-if", "conf/workloads/pip-474-100-keys.toml", "--partitions", 1, "--no-audit")
    number = len(variants_for("4.0.8", {}))
    said = [f"simulate: {done} of {number} dispatchers done" for done in range(1, number + 1)]
    at = [written.find(sentence) for sentence in said[:-1]]
    assert -1 not in at
    assert at == sorted(at)


def test_a_single_trace_has_no_number() -> None:
    reported: list[str] = []
    of_several(reported.append, 1, 1)("read")
    of_several(reported.append, 3, 8)("read")
    assert reported == ["read", "trace 3 of 8: read"]


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str, position: int) -> list[str]:
        env = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": str(position), "PYTHONPATH": str(ROOT)}
        env["_DISPATCH_AUDIT_COMPLETE"] = "complete_bash"
        return subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=False).stdout.split()

    assert completed("dispatch-audit wh", 1) == ["what-if"]
    assert "--findings" in completed("dispatch-audit audit --fin", 2)
