"""Virtual environments with a release of Spark and its Delta Lake, into which the wheel is installed afterwards."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
DELTA_OF: Final = {"3.5.7": "3.3.2", "4.0.1": "4.0.0", "4.1.1": "4.4.0", "4.2.0": "4.4.0"}
"""Releases of PySpark, and the release of delta-spark for each."""
_OF_SPARK: Final = ("delta-spark", "delta_spark", "py4j", "pyspark")
_PIP: Final = ("-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        folder: of the environment.
        listed: the packages of Spark after each installation.
    """

    folder: Path
    listed: list[list[str]] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """Returns the working directory, in which recordings and samples have the same names as in the checkout.

        In the checkout itself, Spark's workers would import the package from there.
        """
        folder = self.folder / "work"
        if not folder.exists():
            (folder / "tests").mkdir(parents=True)
            for name in ("data", "tests/data"):
                (folder / name).symlink_to(ROOT / name)
        return folder

    @property
    def spark_home(self) -> Path:
        """Returns the folder of PySpark, which has the programs of Spark."""
        (found,) = self.folder.glob("lib/python*/site-packages/pyspark")
        return found

    def program(self, name: str) -> str:
        """Returns the path of a program."""
        return str(self.folder / "bin" / name)

    def install(self, *requirements: str) -> None:
        """Installs what pip chooses for the requirements."""
        done = self.run(self.program("python"), *_PIP, *requirements)
        assert done.returncode == 0, done.stderr
        self.listed.append(self.of_spark())

    def of_spark(self) -> list[str]:
        """Returns the packages of Spark and Delta Lake that are installed, with their versions."""
        listed = self.run(self.program("python"), "-m", "pip", "freeze", "--disable-pip-version-check").stdout
        return [line for line in listed.splitlines() if line.partition("==")[0] in _OF_SPARK]

    def run(self, *command: Any, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command that finds the package and Spark in this environment only."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.work,
            env=self.variables(variables),
            capture_output=True,
            text=True,
            check=False,
        )

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables of a process of this environment."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        python = {"PYSPARK_PYTHON": self.program("python"), "SPARK_LOCAL_IP": "127.0.0.1"}
        return inherited | python | {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"} | dict(more)


def environment_with(folder: Path, *requirements: str) -> Environment:
    """Makes an environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    made = Environment(folder)
    made.install(*requirements)
    return made
