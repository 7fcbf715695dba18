"""The result of a task of the replay: the rows of all its groups, in few payloads and batches.

A quiet partition has a few rows for each of eight tables. Each payload costs the worker and the driver as much time as
hundreds of rows, and so does each batch of payloads in the engine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dispatch_audit.pipeline.engine.gathered import gathered
from dispatch_audit.pipeline.engine.worker_process import Batches
from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.tables.payload import encode

# Tables with a payload for each group: a state may have hundreds of megabytes, `assignments` has dictionary arrays.
_ALONE: Final = frozenset({"assignments", "state"})
# The most rows of the other tables that wait for those of the next group.
_WAITING_ROWS: Final = 8192
# The least bytes of payloads that leave a worker together, except the last ones.
_TOGETHER_BYTES: Final = 1 << 20


def task_result(found: Iterable[tuple[str, Columns]]) -> Batches:
    """Returns the rows, each table with at least one, as batches of `RESULT_SCHEMA`."""
    return map(_batch_of, gathered(_payloads(found), lambda named: len(named[1]), _TOGETHER_BYTES))


def _payloads(found: Iterable[tuple[str, Columns]]) -> Iterator[tuple[str, bytes]]:
    waiting: defaultdict[str, list[Columns]] = defaultdict(list)
    rows = 0
    for table, columns in found:
        if table in _ALONE:
            yield table, encode(table, columns)
            continue
        waiting[table].append(columns)
        rows += _rows_of(columns)
        if rows > _WAITING_ROWS:
            yield from _encoded(waiting)
            waiting.clear()
            rows = 0
    yield from _encoded(waiting)


def _encoded(waiting: defaultdict[str, list[Columns]]) -> Iterator[tuple[str, bytes]]:
    return ((table, encode(table, _joined(parts))) for table, parts in waiting.items())


def _joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several groups; a column that a group leaves out is None there."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: list(chain.from_iterable(_values(part, name) for part in parts)) for name in names}


def _values(columns: Columns, name: str) -> Iterable[Any]:
    return columns[name] if name in columns else [None] * _rows_of(columns)


def _rows_of(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _batch_of(payloads: Sequence[tuple[str, bytes]]) -> pa.RecordBatch:
    tables, found = zip(*payloads, strict=True)
    return pa.record_batch([pa.array(tables, pa.string()), pa.array(found, pa.binary())], names=["table", "payload"])
