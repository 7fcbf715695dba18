from pathlib import Path

import pytest

from dispatch_audit.jobs.engines.java import require_java
from dispatch_audit.pipeline.errors import UsageError


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def install(home: Path, answer: str, exit_code: int = 0) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {exit_code}\n")
    program.chmod(0o755)


@pytest.mark.parametrize("answer", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19', "odd"])
def test_a_java_that_spark_runs_on_is_taken(java_home: Path, answer: str) -> None:
    install(java_home, answer)
    require_java()


@pytest.mark.parametrize(
    ("answer", "version"), [('java version "1.8.0_402"', "8"), ('openjdk version "11.0.2" 2019', "11")]
)
def test_a_java_that_is_too_old_is_named(java_home: Path, answer: str, version: str) -> None:
    install(java_home, answer)
    with pytest.raises(
        UsageError, match=rf"needs Java 17 or later, but .*/bin/java is Java {version}; install Java 17"
    ):
        require_java()


def test_a_java_that_does_not_run_is_named(java_home: Path) -> None:
    install(java_home, "Error: could not find libjava.so", exit_code=2)
    with pytest.raises(UsageError, match="java does not run"):
        require_java()


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"is not installed; install .*apt-get .*dnf .*brew "):
        require_java()
