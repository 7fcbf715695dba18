"""The compiled code that a wheel brings along, and the environment that it is made for.

`hatch_build.py` writes it, for any processor of the machine's kind. Code fits the sources that it is made of, the
version of numba, the minor version of Python and the kind of machine; it has a folder for each combination.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numba

COMPILED: Final = Path(__file__).parents[2] / "compiled"
"""The folder of a wheel; a checkout has none."""

MADE_FOR: Final = "made_for.json"
"""The file in that folder with the environment of the build, as `environment` returns it."""

# Says how functions are compiled, so that a change of it makes other code of the same sources.
_HOW: Final = sorted(Path(__file__).parent.glob("*.py"))


def environment() -> dict[str, str]:
    """Returns what the compiled code depends on, other than its sources and the processor."""
    return {
        "numba": numba.__version__,
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "machine": f"{sys.platform} {platform.machine()}",
    }


def version_of(sources: Iterable[Path], constants: str) -> str:
    """Returns the name of the folder for code that is compiled from these sources in this environment."""
    texts = [path.read_bytes() for path in (*sources, *_HOW)]
    parts = [*texts, constants.encode(), json.dumps(environment()).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def why_none_fits() -> str:
    """Returns why the compiled code of the wheel is of no use here."""
    try:
        made_for: dict[str, str] = json.loads((COMPILED / MADE_FOR).read_text(encoding="utf-8"))
    except OSError:
        return "this installation brings no compiled code along"
    here = environment()
    differ = [f"{name} {made_for[name]}, here is {here[name]}" for name in here if made_for[name] != here[name]]
    return f"the compiled code is for {'; for '.join(differ)}" if differ else "the sources were changed after the build"
