"""numba is asked once what an operator returns for the same types of arguments."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types
from numpy.typing import NDArray

from dispatch_audit.pipeline.compilation.compiler import Compiler

compiled = Compiler([Path(__file__)])


@compiled
def last(numbers: NDArray[np.uint16], at: int) -> int:
    return int(numbers[at] + numbers[at])


@compiled
def sum_of_four(numbers: NDArray[np.uint16], at: int) -> int:
    return int(numbers[at] + numbers[at] + last(numbers, at))


def test_an_operator_is_looked_up_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    numbas: Any = types.Function.get_call_type
    asked: Counter[tuple[str, tuple[Any, ...]]] = Counter()

    def counted(function: Any, context: Any, args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        asked[str(function), args] += 1
        return numbas(function, context, args, kws)

    monkeypatch.setattr(types.Function, "get_call_type", counted)
    assert sum_of_four(np.array([7], dtype=np.uint16), 0) == 28
    of_array = [count for (_, args), count in asked.items() if isinstance(args[0], types.Array)]
    assert of_array == [1]
