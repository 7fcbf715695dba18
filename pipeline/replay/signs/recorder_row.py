"""Rows in which a recorder says of itself, and of the broker, that they run, hang or end (TRACE_FORMAT).

They travel beside the packed events, because they change no entry, and there are few of them.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.checkpointed import checkpointed

COLUMNS: Final = ("seq", "ts_us", "event", "phase", "subscription", "begun_us", "waits_for")


@checkpointed("recorder_row")
class RecorderRow(NamedTuple):
    """A row `heartbeat`, `hang` or `end`."""

    seq: int  # the number of the row
    ts_us: int  # the time of the row
    event: str  # one of the three names
    over: bool  # of a hang, whether the snapshot has ended
    shared: bool  # whether it concerns every topic of its recorder
    begun_us: int  # of a hang, when the snapshot began; -1: it is none
    waits_for: str  # of a hang, for which locks the snapshot waits and who holds them; empty: the row does not say


def recorder_rows(rows: pa.RecordBatch) -> list[RecorderRow]:
    """The rows of a batch with `COLUMNS`, which holds no others."""
    columns = [rows.column(name).to_pylist() for name in COLUMNS]
    return [
        RecorderRow(seq, ts_us, event, phase != "start", name is None, -1 if begun is None else begun, waits_for or "")
        for seq, ts_us, event, phase, name, begun, waits_for in zip(*columns, strict=True)
    ]
