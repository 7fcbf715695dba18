"""Compiles functions, and keeps them on disk in a folder for each version of the sources that they are made of.

numba checks only the file of a function, not the files of the functions that it calls. With one folder it would use
code that was compiled with an older callee. Where the sources lie does not matter: a second checkout or environment, or
a worker that unpacks them anew, takes what the first one compiled, which saves it a minute or two.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core.caching import UserProvidedCacheLocator

from dispatch_audit.pipeline.cache_folder import cache_folder

# numba's stubs lack `_nrt`, which numba uses itself for functions that only borrow arrays.
_njit: Any = numba.njit
# Ours, and numba's for a folder that cannot be written.
_LOCATORS = f"{__name__}.ByRoom, InTreeCacheLocator, UserWideCacheLocator"
# The options of functions that only borrow arrays.
_BORROWING: Final = {"forceinline": True, "_nrt": False}
_Function = TypeVar("_Function", bound=Callable[..., object])


class ByRoom(UserProvidedCacheLocator):
    """Names the folder of a room without the path of the checkout, which numba's own locator hashes into it."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Returns the folder of a source file below the cache."""
        return Path(py_file).parent.name


class Compiler:
    """A decorator: the function is compiled at its first call and cached on disk for later processes.

    Two options decide the speed (docs/TRIED.md). The functions pass the whole state, a hundred machine words, to each
    other, so every function is inlined where it is called. And they only borrow the arrays of their caller: without
    numba's runtime there is no counting of references, which took atomic instructions at every step. In return a
    compiled function cannot make an array, unless it asks for that.

    Args:
        sources: every file that the compiled functions come from.
        constants: other values that are compiled in.
        make_arrays: whether the functions make arrays; then they have numba's runtime and are inlined as numba likes.
    """

    def __init__(self, sources: Iterable[Path], constants: str = "", *, make_arrays: bool = False) -> None:
        self._options = {} if make_arrays else _BORROWING
        self._folder = None if "NUMBA_CACHE_DIR" in os.environ else str(_cache_folder(sources, constants))

    def __call__(self, function: _Function) -> _Function:
        """Returns the function, to be compiled."""
        if self._folder is None:
            return self._compiled(function)
        # numba takes the folder and its locator when it decorates a function.
        config = vars(numba.config)
        ours = {"CACHE_DIR": self._folder, "CACHE_LOCATOR_CLASSES": _LOCATORS}
        before = {name: config.get(name, "") for name in ours}
        config.update(ours)
        try:
            return self._compiled(function)
        finally:
            config.update(before)

    def _compiled(self, function: _Function) -> _Function:
        return cast(_Function, _njit(cache=True, **self._options)(function))


def _cache_folder(sources: Iterable[Path], constants: str) -> Path:
    """Returns the folder for code compiled from these sources, and makes it."""
    texts = [path.read_bytes() for path in sources]
    # numba empties a folder that another version of it has written.
    digest = hashlib.sha256(b"\0".join([*texts, constants.encode(), numba.__version__.encode()])).hexdigest()[:16]
    return cache_folder(digest)
