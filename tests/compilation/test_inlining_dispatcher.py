"""A function that compiled functions inline is compiled once, and gives what it gives in the interpreter."""

from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from dispatch_audit.pipeline.compilation.compiler import Compiler

compiled = Compiler([Path(__file__)])


@compiled
def weighted(number: int, weight: int) -> int:
    return number * weight - 1


@compiled
def entered(wide: NDArray[np.int64], narrow: NDArray[np.int32]) -> int:
    return weighted(wide[0], 2) + weighted(narrow[0], 3) + weighted(narrow[0], narrow[0])


WIDE, NARROW = np.array([2**40]), np.array([-(2**31)], dtype=np.int32)
# The last product does not fit 32 bits.
EXPECTED = 2**41 - 1 + 3 * -(2**31) - 1 + 2**62 - 1


def test_constants_and_narrow_integers_need_no_versions_of_their_own() -> None:
    assert entered(WIDE, NARROW) == EXPECTED
    inlined: Any = weighted
    assert len(inlined._inlined) <= 1


def test_python_can_call_a_function_that_others_inline() -> None:
    assert [entered(WIDE, NARROW), weighted(5, 2), entered(WIDE, NARROW)] == [EXPECTED, 9, EXPECTED]


def test_what_is_kept_on_disk_is_found_again_by_a_new_dispatcher() -> None:
    entered(WIDE, NARROW)
    function: Any = entered
    with event.install_recorder("numba:compile") as compilations:
        again: Any = compiled(function.py_func)
        assert again(WIDE, NARROW) == EXPECTED
    assert not compilations.buffer
