"""Builds the wheel for runtimes with their own Spark and Delta Lake, such as Databricks.

It is the wheel of the package without the requirement on PySpark and on Delta: these would replace or hide
those of the runtime.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_BROUGHT = ("Requires-Dist: pyspark==", "Requires-Dist: delta-spark==")


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
        lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
        metadata.write_text("".join(line for line in lines if not line.startswith(_BROUGHT)), encoding="utf-8")
        _run("wheel", "pack", str(metadata.parents[1]), "-d", str(folder.resolve()))
    return folder / built.name


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Builds the wheel without Spark."""
    parser = argparse.ArgumentParser(prog="python -m cluster.runtime_wheel", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder for the wheel")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
