"""Python calls the compiled functions that it enters past numba's look at types with one kind of arguments each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_replay import recorded_logs, tables_of_logs
from recorded import of_each, smallest

from dispatch_audit.pipeline.assignment import shares
from dispatch_audit.pipeline.compilation.compiler import Compiler
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.blocking import passed_over
from dispatch_audit.pipeline.replay.dispatcher import allocation, dispatcher, row_replay
from dispatch_audit.pipeline.replay.state import index
from dispatch_audit.pipeline.replay.subscription import range_ownership
from dispatch_audit.pipeline.replay.timeline import change_points

ENTRIES = {
    name: entry
    for room in (
        *(allocation, change_points, dispatcher, index, passed_over, row_replay),
        *(range_ownership, shares),
    )
    for name, entry in vars(room).items()
    if isinstance(entry, EntryPoint)
}
"""By name; each module makes its own."""

# The draining dispatcher with what is in few of them: snapshots of consumers without flow rows, gaps, a reset.
RICH = ("hung-consumer-4.0.8", "seek-unload-1-4.0.8")


@of_each([*sorted(smallest()), *RICH])
def test_arguments_have_the_types_of_the_first_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types: dict[EntryPoint[..., Any], set[tuple[Any, ...]]] = {entry: set() for entry in ENTRIES.values()}

    def looked_at(entry: EntryPoint[..., Any], *args: object) -> object:
        function: Any = entry.function
        types[entry].add(tuple(map(function.typeof_pyval, args)))
        return function(*args)

    monkeypatch.setattr(EntryPoint, "__call__", looked_at)
    tables_of_logs(name, recorded_logs(name))
    for entry_name, entry in ENTRIES.items():
        assert len(types[entry]) <= 1, entry_name
        # That one is the compiled version which the product enters.
        assert types[entry] <= set(getattr(entry.function, "overloads", ())), entry_name
    assert types[ENTRIES["_replay_rows"]]


@Compiler([Path(__file__)])
def doubled(number: int) -> int:
    return 2 * number


def test_from_the_second_call_on_nothing_looks_at_the_types() -> None:
    entry = EntryPoint(doubled)
    assert [entry(4), entry(5)] == [8, 10]
    # numba would compile another version for this type.
    assert entry(np.int16(6)) == 12
    versions: Any = doubled
    assert len(versions.overloads) == 1
    doubled(np.int16(6))
    assert len(versions.overloads) == 2
