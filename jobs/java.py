"""Whether there is a Java that Spark runs on, asked before Spark is: its own answer is a shell error."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from pipeline.errors import UsageError

# What Spark 4.2 is built for (https://spark.apache.org/docs/4.2.0/, "Downloading").
_MAJOR_VERSION_MIN = 17

_WAY_OUT = (
    "install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17) "
    "and set JAVA_HOME if it is not on the PATH"
)


def require_java() -> None:
    """Checks the Java that Spark would start.

    Raises:
        UsageError: there is none, or it is too old.
    """
    java = _java()
    if java is None:
        raise UsageError("Spark needs Java, and there is none", _WAY_OUT)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{java} does not run: {error}", _WAY_OUT) from error
    version = _major_version(answer.stderr)
    if version is not None and version < _MAJOR_VERSION_MIN:
        raise UsageError(f"Spark needs Java {_MAJOR_VERSION_MIN} or later, and {java} is Java {version}", _WAY_OUT)


def _java() -> str | None:
    """The program that Spark's own scripts take: `JAVA_HOME` first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _major_version(answer: str) -> int | None:
    """The major version in what `java -version` says, such as 17 of `17.0.15` and 8 of `1.8.0_402`."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found.group(1)) if found else None
