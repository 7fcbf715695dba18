"""Calls compiled functions from Python without looking at the types of their arguments at each call.

numba finds out the types of all arguments whenever Python calls a compiled function. For the arrays of the state of a
subscription that takes 13 to 25 µs, and the call itself less than one (docs/TRIED.md); a membership change makes some
ten calls.
"""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class EntryPoint(Generic[_Arguments, _Result]):
    """A compiled function that Python always calls with arguments of the same types, which nothing checks.

    Its arrays have the dtype, the dimensions and the contiguity of those of the first call.
    `tests/replay/dispatcher/test_entry_points.py` holds the callers to that.

    Attributes:
        function: the compiled function.
    """

    def __init__(self, function: Callable[_Arguments, _Result]) -> None:
        self.function = function
        self._enter: Callable[_Arguments, _Result] | None = None

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        """Calls the function with positional arguments, as compiled code takes no others."""
        if self._enter is not None:
            return self._enter(*args, **kwargs)
        result = self.function(*args, **kwargs)
        compiled: Any = self.function
        # The interpreter runs the function itself under NUMBA_DISABLE_JIT.
        if hasattr(compiled, "overloads"):
            self._enter = compiled.overloads[tuple(map(compiled.typeof_pyval, args))].entry_point
        else:
            self._enter = self.function
        return result
