"""Turns snapshots into JSON text, as they travel to the replay, and finds those that are good beyond doubt."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.good_rows import Mask
from dispatch_audit.pipeline.trace.checks.one_row import BY_EVENT, Values
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

_CHECKS: Final = [check for check in BY_EVENT["stats"] if check.field.startswith("snapshot")]
_NAMES: Final = [field.name for field in ARROW_TYPES["snapshot"]]


def snapshot_text(snapshot: Values) -> str:
    """Returns a snapshot as JSON: the fields of the format in its order, without nulls."""
    return json.dumps(_without_nulls({name: snapshot.get(name) for name in _NAMES}))


def checked_texts(snapshots: Sequence[Values | None]) -> tuple[pa.Array, Mask]:
    """Returns snapshots as JSON, null where one fails a check, and which of them do."""
    bad = np.array([_is_bad(snapshot) for snapshot in snapshots], dtype=np.bool_)
    texts = (None if snapshot is None else snapshot_text(snapshot) for snapshot in snapshots)
    return pa.array(texts, pa.string(), mask=bad), bad


def _is_bad(snapshot: Values | None) -> bool:
    return snapshot is not None and any(check.failed({"snapshot": snapshot}) for check in _CHECKS)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
