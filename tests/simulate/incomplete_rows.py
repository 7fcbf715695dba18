"""Rows of a simulation of which some are missing: those before the recorder begins, or those of a gap."""

from random import Random
from typing import Final

import pyarrow as pa

_LOST: Final = (3, 20, 60, 150)
_OF_GAPS: Final = (
    pa.field("seq_end", pa.int64()),
    pa.field("dropped", pa.int64()),
    pa.field("dropped_events", pa.list_(pa.string())),
)


def begun_later(rows: pa.RecordBatch, rng: Random) -> pa.RecordBatch:
    """The rows from a random one on: the recorder begins while consumers are connected."""
    return rows.slice(_somewhere(rows, rng))


def with_gap(rows: pa.RecordBatch, rng: Random) -> pa.RecordBatch:
    """The rows with a gap at a random one, of which nobody knows what it has lost (TRACE_FORMAT, "Gaps")."""
    first = _somewhere(rows, rng)
    listed = rows.to_pylist()
    lost = listed[first : first + rng.choice(_LOST)]
    gap = dict.fromkeys(listed[0]) | {name: lost[0][name] for name in ("seq", "ts_us", "topic")}
    gap |= {"event": "gap", "seq_end": lost[-1]["seq"], "dropped": len(lost)}
    schema = pa.schema([*rows.schema, *(field for field in _OF_GAPS if field.name not in rows.schema.names)])
    return pa.RecordBatch.from_pylist([*listed[:first], gap, *listed[first + len(lost) :]], schema=schema)


def _somewhere(rows: pa.RecordBatch, rng: Random) -> int:
    return rng.randrange(rows.num_rows // 8, rows.num_rows * 3 // 4)
