"""Turns snapshots into JSON text, as the replay gets them, and finds those that surely pass the checks."""

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.checks.good_rows import Mask
from dispatch_audit.pipeline.trace.checks.one_row import BY_EVENT, CONSUMERS_OF_SNAPSHOT, Values
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

_CHECKS: Final = [check for check in BY_EVENT["stats"] if check.field.startswith("snapshot")]
_NAMES: Final = [field.name for field in ARROW_TYPES["snapshot"]]


def snapshot_text(snapshot: Values) -> str:
    """Returns a snapshot as JSON: the fields of the format in its order, without nulls."""
    known = _filled({name: snapshot.get(name) for name in _NAMES})
    for name in CONSUMERS_OF_SNAPSHOT:
        if known.get(name):
            known[name] = [consumer and _consumer(consumer) for consumer in known[name]]
    return json.dumps(known)


def checked_texts(size: int, at: NDArray[np.int64], snapshots: Sequence[Values]) -> tuple[pa.Array, Mask]:
    """Returns a column of snapshots as JSON, null where there is none or one fails a check, and which rows fail.

    Args:
        size: number of rows.
        at: rows that have a snapshot.
        snapshots: their snapshots.
    """
    bad, place = np.zeros(size, dtype=np.bool_), np.full(size, -1, dtype=np.int64)
    bad[at] = [_is_bad(snapshot) for snapshot in snapshots]
    place[at] = np.arange(at.size)
    texts = pa.array([snapshot_text(snapshot) for snapshot in snapshots], pa.string())
    return texts.take(pa.array(place, mask=(place < 0) | bad)), bad


def checked_structs(structs: pa.Array) -> tuple[pa.Array, Mask]:
    """Returns a column of structs as `checked_texts` does."""
    at = np.flatnonzero(structs.is_valid().to_numpy(zero_copy_only=False))
    return checked_texts(len(structs), at, structs.take(pa.array(at)).to_pylist(maps_as_pydicts="strict"))


def _is_bad(snapshot: Values) -> bool:
    return any(check.failed({"snapshot": snapshot}) for check in _CHECKS)


def _filled(values: Values) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _consumer(values: Values) -> Values:
    known = _filled(values)
    if known.get("draining_hashes"):
        known["draining_hashes"] = [found and _filled(found) for found in known["draining_hashes"]]
    return known
