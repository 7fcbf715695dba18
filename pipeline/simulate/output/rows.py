"""Turns the log of a simulation into rows of format 1, column by column."""

from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dispatch_audit.pipeline.simulate.output import event_log as kinds
from dispatch_audit.pipeline.simulate.output.settings_rows import SettingsRows
from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload

_POSITION: Final = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.list_(pa.int64()))])
_RANGES: Final = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
_TEXTS: Final = pa.map_(pa.string(), pa.string())

SCHEMA: Final = pa.schema(
    [
        ("event", pa.dictionary(pa.int8(), pa.string())),
        ("phase", pa.dictionary(pa.int8(), pa.string())),
        ("seq", pa.int64()),
        ("ts_us", pa.int64()),
        ("topic", pa.dictionary(pa.int8(), pa.string())),
        ("subscription", pa.dictionary(pa.int8(), pa.string())),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("batch_size", pa.int32()),
        ("key", pa.dictionary(pa.int32(), pa.binary())),
        ("key_source", pa.dictionary(pa.int8(), pa.string())),
        ("size_bytes", pa.int64()),
        ("consumer", pa.int64()),
        ("consumer_name", pa.string()),
        ("redelivery_count", pa.int32()),
        ("ack_type", pa.dictionary(pa.int8(), pa.string())),
        ("positions", pa.list_(_POSITION)),
        ("permits", pa.int32()),
        ("key_shared_mode", pa.dictionary(pa.int8(), pa.string())),
        ("allow_out_of_order", pa.bool_()),
        ("ranges", _RANGES),
        ("reason", pa.string()),
        ("snapshot", pa.string()),
        ("deliver_at_ms", pa.int64()),
        ("settings", _TEXTS),
        ("sources", _TEXTS),
        ("seq_begin", pa.int64()),
    ]
)
"""The columns that a simulated trace has."""

EVENTS: Final = ("publish", "dispatch", "ack", "redeliver", "join", "leave", "flow", "stats", "reset", "settings")
"""The kinds of rows that a simulated trace can have."""
_BOTH_PHASES: Final = np.isin(np.arange(len(EVENTS)), [kinds.DISPATCH, kinds.ACK, kinds.JOIN, kinds.LEAVE])
_CLOSED_BY_BROKER: Final = "closed_by_broker"

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


class SimulationRowWriter:
    """Makes batches of rows from the log of one partition; `seq` goes on from batch to batch."""

    def __init__(self, workload: PartitionWorkload) -> None:
        self._workload = workload
        self._seq = 0
        self._settings = SettingsRows()
        entries = len(workload)
        positions = workload.positions
        if positions is None:
            self._ledgers, self._entries = np.ones(entries, np.int64), np.arange(entries)
        else:
            self._ledgers, self._entries = np.array(positions, np.int64).reshape(-1, 2).T
        self._keys = np.asarray(workload.keys, dtype=np.int32)
        self._key_bytes = pa.array(list(workload.key_bytes), pa.binary())
        messages = workload.messages
        self._batch = np.ones(entries, np.int32) if messages is None else np.asarray(messages, np.int32)
        delayed = workload.deliver_at_us
        self._deliver_at = None if delayed is None else np.asarray(delayed, np.int64)
        self._sizes = None if workload.sizes is None else np.asarray(workload.sizes, np.int64)
        self._ranges = [[{"start": start, "end": end} for start, end in plan.ranges or ()] for plan in workload.clients]

    def rows(self, events: "array[int]", texts: Sequence[str]) -> pa.RecordBatch:
        """The rows of a part of the log, in the order of `seq`.

        Args:
            events: `EventLog.events`.
            texts: `EventLog.texts` of the same part.
        """
        kind, ts_us, consumer, position, extra = np.frombuffer(events, np.int64).reshape(-1, kinds.NUMBERS).T
        command = (kind == kinds.ACK) | (kind == kinds.REDELIVER)
        begins = ~command | (extra == 1)
        both = _BOTH_PHASES[kind]
        for leave in np.flatnonzero(kind == kinds.LEAVE).tolist():
            # A leave by the broker has no end row.
            both[leave] = texts[extra[leave]] != _CLOSED_BY_BROKER
        of_event = np.where(both, 2, 1) * begins
        of_event[(kind == kinds.SETTINGS) & (position == kinds.LOOKED_AT)] = 0
        at = np.repeat(np.arange(kind.size), of_event)
        second = np.zeros(at.size, np.bool_)
        second[1:] = at[1:] == at[:-1]
        seq = self._seq + 1 + np.arange(at.size)
        self._seq += at.size
        of_row = kind[at]
        entry = np.isin(of_row, [kinds.PUBLISH, kinds.DISPATCH])
        where = np.where(entry, position[at], 0)
        phase = np.where(second | (of_row == kinds.RESET) & (position[at] == 1), 1, 0)
        with_phase = _BOTH_PHASES[of_row] | (of_row == kinds.RESET)
        publish, join, stats = (of_row == code for code in (kinds.PUBLISH, kinds.JOIN, kinds.STATS))
        settings = of_row == kinds.SETTINGS
        looks = np.flatnonzero(kind == kinds.SETTINGS)
        changed = self._settings.taken(
            [(texts[extra[look]], int(position[look])) for look in looks.tolist()],
            (self._seq - at.size + np.cumsum(of_event)[looks] - of_event[looks]).tolist(),
        )
        with_reason = (of_row == kinds.LEAVE) | (of_row == kinds.RESET)
        mode = ["STICKY" if any(self._ranges) else "AUTO_SPLIT"]

        def text_of(wanted: _Mask) -> list[str]:
            return [texts[number] for number in extra[at[wanted]].tolist()]

        columns: dict[str, Any] = {
            "event": _coded(of_row, EVENTS),
            "phase": _coded(phase, ("start", "end"), with_phase),
            "seq": pa.array(seq),
            "ts_us": pa.array(self._workload.start_us + ts_us[at]),
            "topic": _coded(np.zeros(at.size), [self._workload.topic]),
            "subscription": _coded(np.zeros(at.size), [self._workload.subscription], ~publish),
            "ledger_id": _known(self._ledgers, where, entry),
            "entry_id": _known(self._entries, where, entry),
            "batch_size": _known(self._batch, where, entry),
            "key": pa.DictionaryArray.from_arrays(_known(self._keys, where, entry), self._key_bytes),
            "key_source": _coded(np.zeros(at.size), ["partition_key"], entry),
            "size_bytes": _known(self._sizes, where, publish),
            "consumer": pa.array(consumer[at], mask=consumer[at] < 0),
            "consumer_name": _scattered(text_of(join), join, pa.string()),
            "redelivery_count": pa.array(extra[at].astype(np.int32), mask=of_row != kinds.DISPATCH),
            "ack_type": _coded(np.zeros(at.size), ["individual"], of_row == kinds.ACK),
            "positions": self._positions(command, begins, position, at),
            "permits": pa.array(position[at].astype(np.int32), mask=of_row != kinds.FLOW),
            "key_shared_mode": _coded(np.zeros(at.size), mode, join),
            "allow_out_of_order": pa.array(np.full(at.size, self._workload.allow_out_of_order), mask=~join),
            "ranges": _scattered([self._ranges[client] for client in position[at[join]].tolist()], join, _RANGES),
            "reason": _scattered(text_of(with_reason), with_reason, pa.string()),
            "snapshot": _scattered([*map(_framed, text_of(stats), seq[stats].tolist())], stats, pa.string()),
            "deliver_at_ms": self._due(where, publish),
            "settings": _scattered([row.settings for row in changed], settings, _TEXTS),
            "sources": _scattered([row.sources for row in changed], settings, _TEXTS),
            "seq_begin": _scattered([row.seq_begin for row in changed], settings, pa.int64()),
        }
        typed = [columns[field.name].cast(field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(typed, schema=SCHEMA)

    def _due(self, where: _Ints, publish: _Mask) -> pa.Array:
        """When delayed entries are to be delivered, milliseconds since 1970 UTC."""
        if self._deliver_at is None:
            return pa.nulls(where.size, pa.int64())
        due = self._deliver_at[where]
        return pa.array((self._workload.start_us + due) // 1000, mask=~publish | (due < 0))

    def _positions(self, command: _Mask, begins: _Mask, position: _Ints, at: _Ints) -> pa.ListArray:
        """The positions of each command, which both of its rows have."""
        # The events of a command follow each other, so its first event and the next first one bound it.
        firsts = np.flatnonzero(begins)
        lengths = np.diff(np.append(firsts, begins.size))
        of_event = np.zeros(begins.size, np.int64)
        of_event[firsts] = np.where(command[firsts], lengths, 0)
        sizes = of_event[at]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        # Row r has the events at[r], at[r] + 1 and so on.
        inner = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes) + np.repeat(at, sizes)
        found = position[inner]
        structs = pa.StructArray.from_arrays(
            [self._ledgers[found], self._entries[found], pa.nulls(found.size, pa.list_(pa.int64()))],
            fields=list(_POSITION),
        )
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), structs, mask=pa.array(~command[at]))


def _coded(codes: npt.ArrayLike, values: Sequence[str], known: _Mask | None = None) -> pa.DictionaryArray:
    indices = pa.array(np.asarray(codes, np.int8), mask=None if known is None else ~known)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values))


def _known(values: npt.NDArray[Any] | None, where: _Ints, known: _Mask) -> pa.Array:
    if values is None or not values.size:
        return pa.nulls(where.size, pa.int64())
    return pa.array(values[where], mask=~known)


def _scattered(values: Sequence[Any], wanted: _Mask, of_type: pa.DataType) -> pa.Array:
    """The values in their order at the wanted rows, null at the others; few rows have one."""
    return pa.array(values, of_type).take(pa.array(np.cumsum(wanted) - 1, mask=~wanted))


def _framed(snapshot: str, seq: int) -> str:
    """A snapshot with the row before its own as both ends of the time in which it was taken."""
    return f'{snapshot[:-1]}, "seq_begin": {seq - 1}, "seq_end": {seq - 1}}}'
