"""How the hot loop is compiled.

The functions of the dispatcher core take numbers and arrays and are compiled by numba. `NUMBA_DISABLE_JIT=1` runs
the very same code in the interpreter: slow, but with a debugger and tracebacks.

Two options decide how fast it is (docs/FIGURES.md). The functions call each other with the whole state, a hundred
machine words, so every one of them is inlined where it is called. And they only borrow the arrays of their caller:
without numba's runtime no array's references are counted, which atomic instructions did at every step. The price is
that a compiled function cannot make an array.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

from pipeline.contract.rules import NAME_OF

# Its stubs leave out `_nrt`, which numba uses itself for functions that only borrow arrays.
_njit: Any = numba.njit
_Function = TypeVar("_Function", bound=Callable[..., object])


COMPILED_ROOMS: Final = ("blocking", "dispatcher", "packing", "rules", "state", "timeline")
"""Rooms of `pipeline.replay` that compiled functions call into or take constants from (tests/docs/test_imports.py)."""


def compiled(function: _Function) -> _Function:
    """`function`, compiled at its first call and kept on disk for the processes that follow."""
    return cast(_Function, _njit(cache=True, forceinline=True, _nrt=False)(function))


def sources() -> list[Path]:
    """The files that compiled functions are made of: those of the rooms that hold any, and of what these import."""
    rooms = Path(__file__).parents[1]
    return sorted(path for room in COMPILED_ROOMS for path in (rooms / room).glob("*.py"))


def _cache_folder() -> Path:
    """Returns a folder of its own for each state of the sources.

    numba looks at the file of a function only, not at those of the functions it calls, so it would go on using
    what was compiled against an older callee. The same goes for the numbers of the rules.
    """
    texts = [path.read_bytes() for path in sources()]
    digest = hashlib.sha256(b"\0".join([*texts, repr(dict(NAME_OF)).encode()])).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "pulsar-dispatch-audit" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        # A worker without a home that it may write to compiles once a process group, not once a user.
        folder = Path(tempfile.gettempdir()) / f"pulsar-dispatch-audit-{os.getuid()}" / digest
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


if "NUMBA_CACHE_DIR" not in os.environ:
    vars(numba.config)["CACHE_DIR"] = str(_cache_folder())
