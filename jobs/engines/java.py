"""Checks the installed Java before Spark starts, because Spark's own message is an error of a shell script."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from dispatch_audit.jobs.engines.releases import java_min
from dispatch_audit.pipeline.errors import UsageError

_WAY_OUT = (
    "install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17) "
    "and set JAVA_HOME if it is not on the PATH, or use --engine embedded"
)


def require_java() -> str:
    """Checks the Java that Spark would start, and returns what it says of its version.

    Raises:
        UsageError: Java is missing, too old, or does not run.
    """
    java = _java()
    if java is None:
        raise UsageError("Spark needs Java, which is not installed", _WAY_OUT)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{java} does not run: {error}", _WAY_OUT) from error
    version = major_version(answer.stderr)
    if version is not None and version < java_min():
        raise UsageError(f"Spark needs Java {java_min()} or later, but {java} is Java {version}", _WAY_OUT)
    return answer.stderr


def has_java() -> bool:
    """Whether there is a Java that Spark can run on."""
    try:
        require_java()
    except UsageError:
        return False
    return True


def _java() -> str | None:
    """Returns the program that Spark's own scripts start: that of `JAVA_HOME`, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def major_version(answer: str) -> int | None:
    """Returns the major version in the output of `java -version`: 17 for `17.0.15`, 8 for `1.8.0_402`."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found.group(1)) if found else None
