"""Compiles the hot loop.

The functions of the kernel take numbers and arrays and are compiled by numba. `NUMBA_DISABLE_JIT=1` runs the same code
in the interpreter: slow, but with a debugger and tracebacks.

Two options decide the speed (docs/FIGURES.md). The functions pass the whole state, a hundred machine words, to each
other, so every function is inlined where it is called. And they only borrow the arrays of their caller: without numba's
runtime there is no counting of references, which took atomic instructions at every step. In return a compiled function
cannot make an array.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

from dispatch_audit.pipeline.compile_cache import cache_folder
from dispatch_audit.pipeline.contract.rules import NAME_OF

# numba's stubs lack `_nrt`, which numba uses itself for functions that only borrow arrays.
_njit: Any = numba.njit
_Function = TypeVar("_Function", bound=Callable[..., object])


COMPILED_ROOMS: Final = ("blocking", "dispatcher", "packing", "rules", "state", "timeline")
"""Rooms of the replay that compiled functions call or take constants from (tests/layout/test_imports.py)."""


def compiled(function: _Function) -> _Function:
    """The function, compiled at its first call and cached on disk for later processes."""
    return cast(_Function, _njit(cache=True, forceinline=True, _nrt=False)(function))


def sources() -> list[Path]:
    """The source files of `COMPILED_ROOMS`."""
    rooms = Path(__file__).parents[1]
    return sorted(path for room in COMPILED_ROOMS for path in (rooms / room).glob("*.py"))


if "NUMBA_CACHE_DIR" not in os.environ:
    vars(numba.config)["CACHE_DIR"] = str(cache_folder(sources(), repr(dict(NAME_OF))))
