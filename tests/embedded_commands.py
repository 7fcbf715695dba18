"""One process with the embedded engine that runs the commands of many tests, as a notebook runs several audits.

    python tests/embedded_commands.py ANSWERS

A command in a process of its own imports for two seconds, starts the engine, and starts a worker that imports as much
again: several times what a small command itself takes. PySpark has sessions of one kind in a process, so that this
cannot be the process of the tests, which has that of the classic client. What a process is for (signals, the end of its
threads, the start of the engine) is tested with processes: `tests/jobs/test_processes.py`, `tests/e2e`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]


class EmbeddedCommands:
    """Runs the command line on the embedded engine."""

    def __init__(self, process: "subprocess.Popen[str]", answers: IO[str], out: Path, err: Path) -> None:
        self._process = process
        self._answers = answers
        self._files = (out, err)

    def __call__(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Runs a command in the working directory of the test; `--engine embedded` is added to it."""
        assert self._process.stdin is not None
        command = [*map(str, arguments), "--engine", "embedded"]
        # Workers have the files from the command that started them on, so they are the same for all commands.
        before = [file.stat().st_size for file in self._files]
        self._process.stdin.write(json.dumps({"command": command, "folder": str(Path.cwd())}) + "\n")
        self._process.stdin.flush()
        answer = self._answers.readline()
        said = [file.read_bytes()[size:].decode() for file, size in zip(self._files, before, strict=True)]
        assert answer, f"the process ended with {self._process.wait()}: {said[1]}"
        return subprocess.CompletedProcess(command, int(answer), *said)


@contextmanager
def embedded_process(folder: Path) -> Iterator[EmbeddedCommands]:
    """Starts the process, and ends it after the body.

    Args:
        folder: gets what the process prints.
    """
    out, err = folder / "stdout", folder / "stderr"
    ours, theirs = os.pipe()
    # No Java, wherever the tests run. The package of this checkout, whichever one the environment has.
    env = {**os.environ, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    with (
        out.open("ab") as to_out,
        err.open("ab") as to_err,
        open(ours) as answers,  # noqa: PTH123 - a pipe has no path
        subprocess.Popen(
            [sys.executable, __file__, str(theirs)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=to_out,
            stderr=to_err,
            pass_fds=(theirs,),
            text=True,
        ) as process,
    ):
        os.close(theirs)
        # The end of its input ends it.
        yield EmbeddedCommands(process, answers, out, err)


def serve(answers: int) -> None:
    """Runs the commands of the lines of stdin, and writes their exit codes."""
    from pyspark.sql import SparkSession

    from dispatch_audit.jobs.cli import main
    from dispatch_audit.jobs.engines.embedded import embedded
    from dispatch_audit.jobs.engines.load import Load

    # What reads and replays in processes of its own, as for all but the smallest traces.
    embedded(SparkSession.builder, quiet=True, load=Load.CHUNKS)
    with os.fdopen(answers, "w", buffering=1) as codes:
        for line in sys.stdin:
            asked = json.loads(line)
            os.chdir(asked["folder"])
            try:
                main(asked["command"])
            except SystemExit as end:
                sys.stdout.flush()
                sys.stderr.flush()
                print(end.code or 0, file=codes)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
