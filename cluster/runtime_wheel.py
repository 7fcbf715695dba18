"""Builds the wheel for runtimes whose Python may be another than the one that builds, such as those of Databricks.

It is the wheel of the package with a name by which it can be installed on any Python; the compiled functions in it are
used where the minor version and the kind of machine are the same (docs/WHERE_TO_RUN.md).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_ANY = ("--python-tag=py3", "--abi-tag=none", "--platform-tag=any")


def build(folder: Path) -> Path:
    """Builds the wheel, replaces any other in `folder`, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob("*.whl"):
        older.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        _run("hatchling", "build", "-t", "wheel", "-d", scratch)
        (built,) = Path(scratch).glob("*.whl")
        _run("wheel", "tags", "--remove", *_ANY, str(built))
        (tagged,) = Path(scratch).glob("*.whl")
        return Path(shutil.move(tagged, folder / tagged.name))


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=_ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Builds the wheel for any Python."""
    parser = argparse.ArgumentParser(prog="python -m cluster.runtime_wheel", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder for the wheel")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
