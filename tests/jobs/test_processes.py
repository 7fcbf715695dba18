"""The command line as a process of its own, as a shell starts it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import run
from samples import SAMPLES


@pytest.fixture
def java_that_says(tmp_path: Path) -> Callable[[str], str]:
    """Installs a Java that knows its version, and says something and fails when it is to run Spark."""

    def install(words: str) -> str:
        program = tmp_path / "jdk" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            'test "$1" = -version && echo \'openjdk version "17.0.15"\' >&2 && exit 0\n'
            f"echo '{words}'\necho '{words}' >&2\nexit 1\n"
        )
        program.chmod(0o755)
        return str(tmp_path / "jdk")

    return install


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Error: no space left", "Java gateway process exited before sending its port number"),
        ("UNRESOLVED DEPENDENCY: io.delta", "the jars of Delta Lake are missing and cannot be downloaded"),
        (
            "[download failed: org.slf4j#slf4j-api;2.0.13!slf4j-api.jar]",
            "cannot get the jar org.slf4j#slf4j-api;2.0.13: ",
        ),
    ],
)
def test_a_spark_that_does_not_start_is_one_line(
    java_that_says: Callable[[str], str], tmp_path: Path, words: str, reason: str
) -> None:
    home = java_that_says(words)
    trace, out = SAMPLES / "heavy-churn-3.0.7", tmp_path / "out"
    done = run("audit", trace, "--out", out, "--engine", "spark", JAVA_HOME=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dispatch-audit: error: Spark does not start: ")
    assert done.stderr.endswith("; --debug shows its output\n")
    assert reason in done.stderr
    assert words not in done.stderr


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.slow
def test_spark_starts_below_a_program_that_used_the_embedded_engine(tmp_path: Path) -> None:
    # What PySpark leaves in the environment of such a program.
    done = run(
        "audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--engine", "spark", SPARK_CONNECT_MODE_ENABLED="1"
    )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.e2e
def test_an_audit_says_one_json_object_and_nothing_on_stderr(tmp_path: Path) -> None:
    done = run("audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--format", "json")
    assert done.stderr == ""
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["rules"]["single_holder"]["violation"] + report["rules"]["single_holder"]["known_bug"] == 13
    assert all(Path(table, "_delta_log").is_dir() for table in report["tables"].values())


# A task that fails leaves others running, in threads of a process that ends.
@pytest.mark.e2e
def test_a_log_that_cannot_be_read_ends_the_embedded_engine_in_order(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(SAMPLES / "heavy-churn-3.0.7", trace)
    log = trace / "acks.jsonl.gz"
    content = bytearray(log.read_bytes())
    content[1_000] ^= 0xFF
    log.write_bytes(content)
    for _ in range(4):
        done = run("validate", trace, "--engine", "embedded")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert "acks.jsonl.gz: " in done.stderr
