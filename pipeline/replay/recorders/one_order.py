"""Renumbers the rows of several recorders as if one had written them: common seqs, and one number for each consumer.

This happens when rows are packed, so that all later steps see one recorder
(`dispatch_audit.pipeline.replay.recorders.recorders`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import DTYPES, Code, Events
from dispatch_audit.pipeline.replay.packing.membership_rows import RESTARTS, MembershipEvent
from dispatch_audit.pipeline.replay.packing.narrow_events import narrow
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.replay.recorders.recorders import TRANSFER_ROWS, Recorders, Term
from dispatch_audit.pipeline.trace.parquet.arrow_columns import integers, numbered

_LEFT_OUT = -1


def in_one_order(batch: pa.RecordBatch, by_topic: Mapping[str, Recorders]) -> list[pa.RecordBatch]:
    """The rows with common seqs and numbers of consumers, where a topic has several recorders.

    Rows of different terms are separated, so that no packed batch contains rows before and after those of another
    recorder. A row that was written after the topic had moved to the next owner gets the time of that move. Rows of a
    recorder that was unknown when the terms were found are left out.

    Args:
        batch: rows with `dispatch_audit.pipeline.replay.packing.pack.COLUMNS` and `broker`; `snapshot` as JSON.
        by_topic: the topics of several recorders.
    """
    topics, topic = numbered(batch.column("topic"))
    moved = [at for at, name in enumerate(topics) if name in by_topic]
    order = np.argsort(topic, kind="stable")
    starts = np.searchsorted(topic[order], moved, side="left")
    stops = np.searchsorted(topic[order], moved, side="right")
    if not (stops > starts).any():
        return [batch]
    brokers, broker = numbered(batch.column("broker"))
    columns = {name: integers(batch.column(name)) for name in ("seq", "ts_us", "consumer")}
    known = {name: pc.is_valid(batch.column(name)) for name in columns}
    snapshots, term = batch.column("snapshot").to_pylist(), np.zeros(batch.num_rows, dtype=np.int64)
    for at, start, stop in zip(moved, starts, stops, strict=True):
        recorders, rows = by_topic[topics[at] or ""], order[start:stop]
        for number, name in enumerate(brokers):
            of_broker = rows[broker[rows] == number]
            if name not in recorders.names:
                term[of_broker] = _LEFT_OUT
            elif of_broker.size:
                term[of_broker] = _join(of_broker, recorders, recorders.names.index(name), columns, snapshots)
    for name, values in columns.items():
        column = pc.if_else(known[name], pa.array(values), pa.scalar(None, pa.int64()))
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    batch = batch.set_column(batch.schema.get_field_index("snapshot"), "snapshot", pa.array(snapshots, pa.string()))
    found = [number for number in np.unique(term).tolist() if number != _LEFT_OUT]
    return [batch] if found == [0] and not term.any() else [batch.filter(pa.array(term == number)) for number in found]


def _join(
    rows: NDArray[np.int64],
    recorders: Recorders,
    recorder: int,
    columns: Mapping[str, NDArray[np.int64]],
    snapshots: list[str | None],
) -> NDArray[np.int64]:
    """Renumbers the rows of one recorder of one topic in place, and returns the number of the term of each."""
    numbers = [number for number, term in enumerate(recorders.terms) if term.recorder == recorder]
    terms = [recorders.terms[number] for number in numbers]
    seq, count = columns["seq"][rows], len(recorders.names)
    of_term = np.maximum(np.searchsorted([term.first_seq for term in terms], seq, side="right") - 1, 0)
    columns["seq"][rows] = seq + np.array([term.first - term.first_seq for term in terms])[of_term]
    latest = np.array([np.iinfo(np.int64).max if term.until_us is None else term.until_us for term in terms])
    columns["ts_us"][rows] = np.minimum(columns["ts_us"][rows], latest[of_term])
    consumer = columns["consumer"][rows]
    columns["consumer"][rows] = np.where(consumer >= 0, consumer * count + recorder, consumer)
    for row, at in zip(rows, of_term, strict=True):
        text = snapshots[row]
        if text is not None:
            snapshots[row] = json.dumps(_snapshot(json.loads(text), terms[at], recorder, count))
    return np.array(numbers)[of_term]


def _snapshot(values: dict[str, Any], term: Term, recorder: int, count: int) -> dict[str, Any]:
    for name in ("seq_begin", "seq_end"):
        if values.get(name) is not None:
            values[name] = term.place(values[name])
    for consumer in values.get("consumers") or ():
        if consumer["consumer"] >= 0:
            consumer["consumer"] = consumer["consumer"] * count + recorder
    return values


class Transfers:
    """Adds a reset between two terms if none is recorded, because the next owner has a new dispatcher.

    Attributes:
        rows: the number of rows added so far.
    """

    def __init__(self, recorders: Recorders) -> None:
        """Takes the terms."""
        self._terms = recorders.terms
        self.rows = 0

    @property
    def places(self) -> int:
        """The number of seqs that are reserved for such rows."""
        return TRANSFER_ROWS * max(len(self._terms) - 1, 0)

    def among(self, chunks: Iterable[PackedBatch]) -> Iterator[PackedBatch]:
        """The packed batches of a group, in order, with the resets between them."""
        waiting = list(self._terms[:-1])
        rows: list[MembershipEvent] = []
        for chunk in chunks:
            while waiting and waiting[0].last < chunk.first_seq:
                term = waiting.pop(0)
                if not _is_over([row for row in rows if term.first <= row.seq <= term.last]):
                    self.rows += TRANSFER_ROWS
                    yield _transfer(term, chunk.group)
                rows = [row for row in rows if row.seq > term.last]
            if waiting:
                rows += chunk.membership
            yield chunk


def _is_over(rows: Iterable[MembershipEvent]) -> bool:
    """Whether a reset followed the last join of a term."""
    resets = [row.seq for row in rows if row.kind == "reset" and row.late and row.reason in RESTARTS]
    joins = [row.seq for row in rows if row.kind == "join" and row.consumer >= 0]
    return max(resets, default=-1) > max(joins, default=-1)


def _transfer(term: Term, group: int) -> PackedBatch:
    """Both sides of a reset, after the last row of a term."""
    sides, at_us = np.array([Code.RESET_START, Code.RESET_END]), term.until_us or 0
    seqs = term.last + 1 + np.arange(TRANSFER_ROWS)
    absent = np.full(TRANSFER_ROWS, -1)
    events = Events(*(absent.astype(dtype) for dtype in DTYPES.values()))
    none = np.zeros(TRANSFER_ROWS, dtype=np.int32)
    events = events._replace(code=sides.astype(np.int8), seq=seqs, ts_us=absent * 0 + at_us)
    events = events._replace(part=none, word=none, words_left=none)
    rows = [
        MembershipEvent(int(seq), at_us, "reset", late, -1, "", False, False, (), "transfer")
        for seq, late in zip(seqs, (False, True), strict=True)
    ]
    return PackedBatch(group, int(seqs[0]), int(seqs[-1]), narrow(events), tuple(rows), ())
