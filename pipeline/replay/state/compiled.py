"""Compiles the hot loop.

The functions of the kernel take numbers and arrays and are compiled by numba. `NUMBA_DISABLE_JIT=1` runs the same code
in the interpreter: slow, but with a debugger and tracebacks.
"""

from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.compilation.compiler import Compiler
from dispatch_audit.pipeline.contract.rules import NAME_OF

COMPILED_ROOMS: Final = (
    "packing",
    "replay/blocking",
    "replay/dispatcher",
    "replay/rules",
    "replay/state",
    "replay/timeline",
)
"""Rooms of the pipeline that compiled functions call or take constants from (tests/layout/test_imports.py)."""


def sources() -> list[Path]:
    """The source files of `COMPILED_ROOMS`, and the durations."""
    rooms = Path(__file__).parents[2]
    of_rooms = [path for room in COMPILED_ROOMS for path in (rooms / room).rglob("*.py")]
    return sorted([*of_rooms, rooms / "replay" / "durations.py"])


compiled: Final = Compiler(sources(), repr(dict(NAME_OF)))
"""Decorates the functions of these rooms."""
