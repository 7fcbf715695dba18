"""Compiles the functions that parse lines.

`NUMBA_DISABLE_JIT=1` runs the same code in the interpreter.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

from dispatch_audit.pipeline.compile_cache import cache_folder

_njit: Any = numba.njit
_Function = TypeVar("_Function", bound=Callable[..., object])
_FOLDER: Final = str(cache_folder(sorted(Path(__file__).parent.glob("*.py"))))


def compiled(function: _Function) -> _Function:
    """Returns the function, compiled at its first call and cached on disk for later processes."""
    # numba takes the folder when it decorates a function. The replay's functions have a folder of their own.
    config = vars(numba.config)
    before = config["CACHE_DIR"]
    if "NUMBA_CACHE_DIR" not in os.environ:
        config["CACHE_DIR"] = _FOLDER
    try:
        return cast(_Function, _njit(cache=True, forceinline=True, _nrt=False)(function))
    finally:
        config["CACHE_DIR"] = before
