"""Ctrl-C, as a terminal sends it: SIGINT to all processes of a command, at moments that the command itself names.

`-X importtime` writes a line to stderr after each import, and `--log-format json` one after each stage, so that no
moment depends on how fast the machine is.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from samples import SAMPLES

from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

ROOT = Path(__file__).resolve().parents[2]
CHURN = SAMPLES / "heavy-churn-3.0.7"
WORKLOAD = ROOT / "conf" / "workloads" / "pip-474-100-keys.toml"
STATISTICS = ROOT / "tests" / "data" / "statistics" / "backlog-read-4.2.4"
END_WITHIN_S = 1.0
TRIES = 4
"""One has to end in time. Other work on the machine may hold up a command, or the signal until a command is done; what
waits for something, or takes no signal, does so each time."""
HANGS_S = 120
AUDIT_AGAIN = "interrupted; traces without a row in `runs` were not audited: run the audit again"
RUN_AGAIN = "interrupted; run it again"

IMPORTS = ("typer", "pyspark.sql", "dispatch_audit.jobs.commands.audit")
SPARK_STARTS = "dispatch_audit.jobs.engines.spark"
SPARK_RUNS = "pyspark.sql.classic.dataframe"
STAGES = ("open", "read", "replay", "look up keys", "write tables")


class Interrupted(NamedTuple):
    """How a command ended.

    Attributes:
        code: its exit code; 0: it was done before the signal came; negative: the signal that killed it.
        seconds: from the signal to its end.
        out: its stdout.
        err: what it wrote to stderr, without the lines of imports and stages.
    """

    code: int
    seconds: float
    out: str
    err: list[str]


def interrupted(moment: str, *arguments: object, after_s: float = 0.0) -> Interrupted:
    """Starts a command, sends SIGINT to its processes, and returns how it ended.

    Args:
        moment: the module that it has imported, or the stage that it has finished, when SIGINT is sent.
        arguments: of the command.
        after_s: the time from that moment to the signal.
    """
    command = [sys.executable, "-X", "importtime", "-m", "dispatch_audit.jobs.program", *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        # A test that a script runs in the background ignores SIGINT, and so would its children.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it has no threads here
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        said = iter(process.stderr)
        assert any(moment == _imported(line) or moment == _stage(line) for line in said), f"it never came to {moment}"
        err: list[str] = []
        others = (line.strip() for line in said if _imported(line) is None and _stage(line) is None)
        # From now on, because a pipe that is full takes no message.
        reader = threading.Thread(target=err.extend, args=(others,))
        reader.start()
        time.sleep(after_s)
        sent = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        end = threading.Timer(HANGS_S, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        out = process.stdout.read()
        code = process.wait()
        took = time.monotonic() - sent
        end.cancel()
        reader.join()
        return Interrupted(code, took, out, err)


def _imported(line: str) -> str | None:
    return line.rpartition("|")[2].strip() if line.startswith("import time:") else None


def _stage(line: str) -> str | None:
    return json.loads(line).get("stage") if line.startswith("{") else None


def assert_ends(message: str, moment: str, *arguments: object, after_s: float = 0.0) -> None:
    """Interrupts a command, which has to end at once, with a message and nothing else."""
    tries: list[Interrupted] = []
    for _ in range(TRIES):
        found = interrupted(moment, *arguments, after_s=after_s)
        tries.append(found)
        if found.code == 0:
            continue
        assert (found.code, found.out) == (130, "")
        (line,) = found.err
        reported = json.loads(line)["message"] if line.startswith("{") else line.removeprefix("dispatch-audit: error: ")
        assert reported == message
        if found.seconds < END_WITHIN_S:
            return
    pytest.fail(f"it did not end within {END_WITHIN_S} s: {tries}")


def audit(out: Path, engine: str) -> tuple[object, ...]:
    return ("audit", CHURN, "--out", out, "--engine", engine, "--log-format", "json", "--fail-on", "never")


@pytest.mark.e2e
@pytest.mark.parametrize("moment", IMPORTS)
def test_ctrl_c_ends_a_command_that_still_imports(moment: str, tmp_path: Path) -> None:
    assert_ends("interrupted", moment, *audit(tmp_path / "out", "embedded"))


@pytest.mark.e2e
@pytest.mark.parametrize("moment", ["pysail.spark", "start the engine"])
def test_ctrl_c_ends_an_audit_on_the_embedded_engine(moment: str, tmp_path: Path) -> None:
    assert_ends(AUDIT_AGAIN, moment, *audit(tmp_path / "out", "embedded"))


# Each moment costs a start of Spark; the gate interrupts one command on Spark, below.
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        "py4j.java_gateway",
        SPARK_STARTS,
        "start the engine",
        "open",
        "read",
    ],
)
def test_ctrl_c_ends_an_audit_on_spark(moment: str, tmp_path: Path) -> None:
    message = "interrupted" if moment == "py4j.java_gateway" else AUDIT_AGAIN
    assert_ends(message, moment, *audit(tmp_path / "out", "spark"))


# While the JVM starts, which takes seconds: its launcher dies of SIGINT too, which is no reason to say so.
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.2, 0.6, 1.2, 1.8, 2.4])
def test_ctrl_c_ends_an_audit_whose_jvm_starts(after_s: float, tmp_path: Path) -> None:
    assert_ends(AUDIT_AGAIN, SPARK_STARTS, *audit(tmp_path / "out", "spark"), after_s=after_s)


COMMANDS = ("validate", "what-if", "simulate", "convert", "explain", "report", "diagnose")
# The import with which the work of a command begins on the embedded engine; below a path some need no engine.
WORK = {
    "validate": "pysail.spark",
    "convert": "pysail.spark",
    "what-if": "dispatch_audit.pipeline.simulate.measures",
    "simulate": "dispatch_audit.pipeline.simulate.measures",
    "explain": "dispatch_audit.pipeline.explain.answer",
    "report": "dispatch_audit.pipeline.report.runs",
    "diagnose": "dispatch_audit.pipeline.statistics.diagnose",
}
WHILE_IT_IMPORTS = (("typer", 0.0), ("pyspark.sql", 0.0), ("dispatch_audit.jobs.stderr", 0.0))
# While the engine is chosen and the JVM starts, while Python connects to it, and in the midst of the work after that.
ON_SPARK = (
    *((SPARK_STARTS, after_s) for after_s in (0.0, 0.7, 1.8)),
    *((SPARK_RUNS, after_s) for after_s in (0.0, 0.2, 0.5, 1.0)),
)
ON_EMBEDDED = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def message_of(command: str, moment: str) -> str:
    """What an interrupted command says: it has a message of its own from when its work begins."""
    if (moment, 0.0) in WHILE_IT_IMPORTS:
        return "interrupted"
    return {
        "convert": "interrupted; nothing was converted: convert again",
        "diagnose": "interrupted; nothing was diagnosed",
    }.get(command, RUN_AGAIN)


def arguments_of(command: str, engine: str, folder: Path) -> tuple[object, ...]:
    """The arguments of a command, on tables behind a URI for Spark, which it reads and writes through the engine.

    Args:
        command: its name.
        engine: as `--engine` takes it.
        folder: has the tables of an audit in `out`, where the command reads some.
    """
    tables, diagnoses = folder / "out", folder / "diagnoses"
    at = (tables.as_uri(), diagnoses.as_uri()) if engine == "spark" else (tables, diagnoses)
    given: dict[str, tuple[object, ...]] = {
        "validate": (CHURN,),
        "what-if": (WORKLOAD,),
        "simulate": (WORKLOAD, "--out", folder / "simulated"),
        "convert": (CHURN, "--to", folder / "converted", "--replace"),
        "explain": (at[0], "--hash", "7"),
        "report": (at[0], "--out", folder / "page.html"),
        "diagnose": (STATISTICS / "stats-1.json", "--out", at[1]),
    }
    return (command, *given[command], "--engine", engine)


@pytest.fixture(scope="module")
def audited_churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of an audit in `out`."""
    folder = tmp_path_factory.mktemp("audited")
    command = [sys.executable, "-m", "dispatch_audit.jobs.program", *map(str, audit(folder / "out", "embedded"))]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return folder


def assert_command_ends(command: str, engine: str, at: tuple[str, float], folder: Path) -> None:
    moment, after_s = at
    assert_ends(message_of(command, moment), moment, *arguments_of(command, engine, folder), after_s=after_s)


# At the beginning of the work; the slow layer has all commands, and more moments, in the midst of it too.
@pytest.mark.e2e
@pytest.mark.parametrize("command", ["validate", "diagnose"])
def test_ctrl_c_ends_each_command(command: str, audited_churn: Path) -> None:
    assert_command_ends(command, "embedded", (WORK[command], 0.0), audited_churn)


# One command of each kind, that audits, reads tables or writes some, at a moment of its own; the slow layer has all.
@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("explain", ON_SPARK[4]),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("validate", ON_SPARK[2]), ("diagnose", ON_SPARK[6]))
        ),
    ],
)
def test_ctrl_c_ends_each_command_on_spark(command: str, at: tuple[str, float], audited_churn: Path) -> None:
    assert_command_ends(command, "spark", at, audited_churn)


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("at", [*WHILE_IT_IMPORTS, *ON_SPARK])
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_each_command_at_ten_moments_on_spark(
    command: str, at: tuple[str, float], audited_churn: Path
) -> None:
    assert_command_ends(command, "spark", at, audited_churn)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_each_command_at_ten_moments_on_the_embedded_engine(command: str, audited_churn: Path) -> None:
    for at in (*WHILE_IT_IMPORTS, *((WORK[command], after_s) for after_s in ON_EMBEDDED)):
        assert_command_ends(command, "embedded", at, audited_churn)


@pytest.mark.e2e
@pytest.mark.parametrize("stages", [STAGES[-1:], pytest.param(STAGES, marks=pytest.mark.slow)], ids=["last", "all"])
def test_the_run_after_ctrl_c_continues(stages: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for moment in stages:
        assert_ends(AUDIT_AGAIN, moment, *audit(out, "embedded"))
    command = [sys.executable, "-m", "dispatch_audit.jobs.program", *map(str, audit(out, "embedded"))]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    tables = tables_of(None, parse_target(str(out)))
    (run,) = tables.query("runs", "run_key, verdict")
    assert run["verdict"] == "known_bug"
    found = tables.query("violations", "run_key, count(*) AS number", "WHERE rule = 'single_holder' GROUP BY run_key")
    assert found == [{"run_key": run["run_key"], "number": 13}]
    assert not (out / "_replay").exists()
