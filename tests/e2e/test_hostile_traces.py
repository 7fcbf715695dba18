"""Logs that would take memory or time without an end, and workers that are killed: one line each.

Each audit runs in a process of its own, with 2 GB of memory for itself and for each worker, and 20 seconds of a core.
"""

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from program import PROGRAM
from samples import SAMPLES

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

MANIFEST = {"trace_format": 1, "pulsar_version": "4.0.8"}
MEMORY_BYTES = 2 << 30
CPU_S = 20


@pytest.fixture(scope="module", autouse=True)
def _compiled(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiles what this state of the sources has not compiled yet, which takes longer than a test may."""
    out = tmp_path_factory.mktemp("compiled") / "out"
    run_embedded("audit", SAMPLES / "join-leave-4.0.8", "--out", out, "--fail-on", "never", "--quiet")


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def command(*arguments: object) -> list[str]:
    return [str(PROGRAM), "audit", *map(str, arguments), "--engine", "embedded", "--quiet"]


def audited(*arguments: object) -> tuple[int, str]:
    """The exit code of an audit, and what it says on stderr."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=300, check=False, preexec_fn=_limited
    )
    return done.returncode, done.stderr


def members(of: bytes, number: int) -> Callable[[Path], None]:
    """Writes a file of gzip with the text `number` times."""
    member = gzip.compress(of)

    def write(folder: Path) -> None:
        with (folder / "events.jsonl.gz").open("wb") as file:
            for _ in range(number):
                file.write(member)

    return write


def hole(folder: Path) -> None:
    with (folder / "events.jsonl").open("wb") as file:
        file.truncate(2 << 30)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (members(b"x" * (16 << 20), 640), "a line is longer than 16 MB (trace.line_mb_max)"),
        (members(b"\n" * (16 << 20), 120), "more than 256 MB are blank lines"),
        pytest.param(hole, "a line is longer than 16 MB (trace.line_mb_max)", marks=pytest.mark.slow),
    ],
    ids=["a line of 10 GB in gzip", "two billion blank lines", "a line of 2 GB"],
)
def test_a_log_without_rows_has_an_end(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    write(trace)
    (trace / "trace.json").write_text(json.dumps(MANIFEST))
    code, said = audited(trace, "--out", tmp_path / "out")
    assert (code, said.count("\n")) == (3, 1), said
    assert said.startswith(f"dispatch-audit: error: cannot read {trace}/events.jsonl")
    assert message in said


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_manifest_that_is_no_file_is_not_waited_for(make: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("{}\n")
    make(tmp_path / "trace.json")
    code, said = audited(tmp_path, "--out", tmp_path / "out")
    assert (code, said.count("\n")) == (3, 1), said
    assert "trace.json is not a regular file" in said


def test_a_trace_without_a_manifest_stops_no_other(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "hung-consumer-4.0.8", tmp_path / "bare")
    (tmp_path / "bare" / "trace.json").unlink()
    out = tmp_path / "out"
    code, said = audited(tmp_path / "bare", SAMPLES / "join-leave-4.0.8", "--out", out, "--fail-on", "never")
    assert (code, said.count("\n")) == (3, 1), said
    assert f"{tmp_path}/bare has no trace.json beside its logs" in said
    (run,) = DeltaTable(out / "runs").to_pyarrow_table().to_pylist()
    assert run["inputs"][0].endswith("join-leave-4.0.8")
    code, said = audited(tmp_path / "bare", "--out", out)
    assert (code, said.count("\n")) == (2, 1), said


def _findings(out: Path) -> list[str]:
    return sorted(DeltaTable(out / "violations").to_pyarrow_table()["finding_id"].to_pylist())


def _worker_of(process: "subprocess.Popen[str]") -> int:
    """The process of the first worker."""
    for _ in range(3_000):
        children = Path(f"/proc/{process.pid}/task").glob("*/children")
        found = [int(child) for file in children for child in file.read_text().split()]
        workers = [child for child in found if "worker_process" in Path(f"/proc/{child}/cmdline").read_text()]
        if workers:
            return workers[0]
        time.sleep(0.02)
    raise AssertionError("no worker began")


@pytest.mark.slow
def test_a_killed_worker_is_said_and_a_new_run_is_whole(tmp_path: Path) -> None:
    trace, out, whole = tmp_path / "trace", tmp_path / "out", tmp_path / "whole"
    trace.mkdir()
    shutil.copy(SAMPLES / "heavy-churn-3.0.7" / "trace.json", trace)
    for log in (SAMPLES / "heavy-churn-3.0.7").glob("*.jsonl.gz"):
        # Of a small trace threads would take care.
        (trace / log.name.removesuffix(".gz")).write_bytes(gzip.decompress(log.read_bytes()))
    with subprocess.Popen(
        command(trace, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.kill(_worker_of(process), signal.SIGKILL)
        said = process.communicate(timeout=300)[1]
    assert (process.returncode, said.count("\n")) == (4, 1), said
    assert "error: a worker was killed, most likely because memory ran out" in said
    for target in (out, whole):
        code, said = audited(trace, "--out", target, "--fail-on", "never")
        assert (code, said) == (0, ""), said
    assert _findings(out) == _findings(whole)
    assert len(_findings(out)) == 13
