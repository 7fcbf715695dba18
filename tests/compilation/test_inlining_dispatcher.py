"""A function that compiled functions inline is compiled once, and gives what it gives in the interpreter."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
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


class Pair(NamedTuple):
    numbers: NDArray[np.int64]
    weights: NDArray[np.int32]


@compiled
def product(pair: Pair, at: int) -> int:
    pair.numbers[at] *= pair.weights[at]
    return int(pair.numbers[at])


@compiled
def products(pair: Pair, order: tuple[int, int]) -> tuple[int, int]:
    return product(pair, max(order)), product(pair, min(order))


WIDE, NARROW = np.array([2**40]), np.array([-(2**31)], dtype=np.int32)
# The last product does not fit 32 bits.
EXPECTED = 2**41 - 1 + 3 * -(2**31) - 1 + 2**62 - 1


def test_constants_and_narrow_integers_need_no_versions_of_their_own() -> None:
    assert entered(WIDE, NARROW) == EXPECTED
    inlined: Any = weighted
    assert len(inlined._inlined) <= 1


def test_tuples_of_arrays_reach_an_inlined_function_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    pair = Pair(np.array([2**40, 5]), np.array([-3, 7], dtype=np.int32))
    assert products(pair, (0, 1)) == (35, -3 * 2**40)
    assert pair.numbers.tolist() == [-3 * 2**40, 35]
    inlined: Any = product
    [(key, signature)] = [((inlined, args), signature) for args, signature in inlined._inlined.items()]
    [library] = inlined.targetctx.get_function(key, signature).libs
    [function] = [f for f in library._final_module.functions if "product" in f.name]
    # numba passes where to put the result and an exception, besides the two arguments.
    assert len(list(function.arguments)) == 2 + 2


def test_python_can_call_a_function_that_others_inline() -> None:
    assert [entered(WIDE, NARROW), weighted(5, 2), entered(WIDE, NARROW)] == [EXPECTED, 9, EXPECTED]


def test_what_is_kept_on_disk_is_found_again_by_a_new_dispatcher() -> None:
    entered(WIDE, NARROW)
    function: Any = entered
    with event.install_recorder("numba:compile") as compilations:
        again: Any = compiled(function.py_func)
        assert again(WIDE, NARROW) == EXPECTED
    assert not compilations.buffer
