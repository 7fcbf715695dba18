"""Builds the wheel for runtimes with their own Spark and Delta Lake, such as Databricks.

It is the wheel of the package without the requirement on PySpark and on Delta: these would replace or hide
those of the runtime. It can be installed on any Python, because that of the runtime may be another than the one that
builds; the compiled functions in it are used where the minor version is the same (docs/DATABRICKS.md).
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# Not what extras require of them.
_BROUGHT = re.compile(r"Requires-Dist: (pyspark|delta-spark)[^\[;]*$")
_TAG = re.compile("Tag: ")


def build(folder: Path) -> Path:
    """Builds the wheel, replaces any other in `folder`, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob("*.whl"):
        older.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        _run("hatchling", "build", "-t", "wheel", "-d", scratch)
        (built,) = Path(scratch).glob("*.whl")
        _run("wheel", "unpack", str(built), "-d", scratch)
        (metadata,) = Path(scratch).glob("*/*.dist-info/METADATA")
        _leave_out(metadata, _BROUGHT)
        tags = metadata.with_name("WHEEL")
        _leave_out(tags, _TAG)
        with tags.open("a", encoding="utf-8") as lines:
            lines.write("Tag: py3-none-any\n")
        _run("wheel", "pack", str(metadata.parents[1]), "-d", str(folder.resolve()))
    (wheel,) = folder.glob("*.whl")
    return wheel


def _leave_out(file: Path, left_out: re.Pattern[str]) -> None:
    """Drops the lines of a file that match from their beginning on."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not left_out.match(line)), encoding="utf-8")


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Builds the wheel without Spark."""
    parser = argparse.ArgumentParser(prog="python -m cluster.runtime_wheel", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder for the wheel")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
