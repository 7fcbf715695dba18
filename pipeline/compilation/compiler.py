"""Compiles functions at their first call, and keeps the code for later processes.

Where the sources lie does not matter: a second checkout or environment, or a worker that unpacks them anew, takes what
the first one compiled.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

from dispatch_audit.pipeline.compilation.code_cache import CodeCache
from dispatch_audit.pipeline.compilation.files_of_wheel import version_of
from dispatch_audit.pipeline.compilation.inlining_dispatcher import InliningDispatcher

VERSIONS: Final[set[str]] = set()
"""The versions of all compilers of this process; each has a folder of compiled code."""

_Function = TypeVar("_Function", bound=Callable[..., object])


class Compiler:
    """A decorator: the function is compiled at its first call.

    Functions are inlined where they are called, and only borrow the arrays of their caller (`InliningDispatcher`). In
    return they cannot make an array, unless they ask for that.

    Args:
        sources: every file that the compiled functions come from.
        constants: other values that are compiled in.
        make_arrays: whether the functions make arrays; then numba compiles them as it likes.
    """

    def __init__(self, sources: Iterable[Path], constants: str = "", *, make_arrays: bool = False) -> None:
        self._dispatcher: Any = CPUDispatcher if make_arrays else InliningDispatcher
        self._version = version_of(sources, constants)
        VERSIONS.add(self._version)

    def __call__(self, function: _Function) -> _Function:
        """Returns the function, to be compiled."""
        if vars(numba.config)["DISABLE_JIT"]:
            return function
        file = Path(function.__code__.co_filename)
        dispatcher = self._dispatcher(function)
        dispatcher._cache = CodeCache(self._version, f"{file.parent.name}.{file.stem}.{function.__qualname__}")
        return cast(_Function, dispatcher)
