"""Turns snapshots into JSON text, as they travel to the replay, and finds those that are good beyond doubt."""

import json
from collections.abc import Sequence
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
    known = _filled({name: snapshot.get(name) for name in _NAMES})
    if known.get("consumers"):
        known["consumers"] = [consumer and _consumer(consumer) for consumer in known["consumers"]]
    return json.dumps(known)


def checked_texts(snapshots: Sequence[Values | None]) -> tuple[pa.Array, Mask]:
    """Returns snapshots as JSON, null where one fails a check, and which of them do."""
    bad = np.array([_is_bad(snapshot) for snapshot in snapshots], dtype=np.bool_)
    texts = (None if snapshot is None else snapshot_text(snapshot) for snapshot in snapshots)
    return pa.array(texts, pa.string(), mask=bad), bad


def _is_bad(snapshot: Values | None) -> bool:
    return snapshot is not None and any(check.failed({"snapshot": snapshot}) for check in _CHECKS)


def _filled(values: Values) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _consumer(values: Values) -> Values:
    known = _filled(values)
    if known.get("draining_hashes"):
        known["draining_hashes"] = [found and _filled(found) for found in known["draining_hashes"]]
    return known
