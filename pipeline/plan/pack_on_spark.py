"""The work of tasks on the parts of a trace: they check, count and pack rows, and stage the result.

parts of a trace -> tasks(check, count, pack) -> rows of `STAGED_SCHEMA`
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.arrow_stream import stream_of
from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.packing.distinct_keys import DistinctKeys
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, of_each_topic
from dispatch_audit.pipeline.plan.event_file import Put, event_file
from dispatch_audit.pipeline.plan.staged_batches import StagedKind, staged, staged_payload
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead
from dispatch_audit.pipeline.trace.checks.rows_with_texts import OF_ROW
from dispatch_audit.pipeline.trace.chosen_rows import ChosenRows
from dispatch_audit.pipeline.trace.quarantine.row_counts import RowCounts
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.tasks import Work
from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

_COLUMNS: Final = (*COLUMNS, *(name for name in OF_ROW if name not in COLUMNS))
# Of rows whose texts are looked for; the rows themselves are not needed.
_NOTHING: Final = ("seq",)
_CHUNK_ROWS: Final = 1 << 16


class Packing(NamedTuple):
    """How rows are packed."""

    profile: Profile  # of the broker
    chunk_rows: int  # most rows that are packed at a time
    digested: bool = False  # whether keys are digests
    chosen: ChosenRows = ChosenRows()  # the topics and subscriptions whose rows are packed
    sample: HashSample = EVERY_HASH  # the hashes whose rows are packed

    def pack(self, batch: pa.RecordBatch) -> list[PackedBatch]:
        """Returns the packed batches of good rows."""
        return pack(batch, self.profile, self.digested, self.sample)


def packed_rows(packing: Packing, files: str | None = None) -> Work:
    """Returns work that packs the rows of a trace, counts them, and stages the refused ones with their texts.

    Without a folder for files of events (`files`) the staged rows have the events.
    """

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        with event_file(files) as put:
            packer = _Packer(packing, put)
            for part, read in _found(parts, _COLUMNS, packing.chunk_rows):
                found = read._replace(good=packing.chosen.among(read.good), refused=packing.chosen.among(read.refused))
                packer.counts.add(found.good)
                packer.counts.add(found.refused)
                yield from packer.packed(found.good)
                yield from _texts(part, found.refused)
                yield from _lines(part, found)
            yield from packer.rest()

    return work


def checked_rows(chunk_rows: int, texts_max: int | None = 1) -> Work:
    """Returns work that counts the rows of a trace without packing them.

    Args:
        chunk_rows: most rows that are checked at a time.
        texts_max: how many refused rows of each reason in a batch are staged, besides those at which a log ends too
            early; None: all.
    """

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        counts = RowCounts()
        for part, found in _found(parts, OF_ROW, chunk_rows):
            counts.add(found.good)
            counts.add(found.refused)
            yield from _texts(part, found.refused if texts_max is None else _shown(found.refused, texts_max))
            yield from _lines(part, found)
        yield staged_payload(StagedKind.COUNTS, counts.encode())

    return work


def rows_with_texts(kept: Callable[[RowsRead], pa.RecordBatch | pa.Table], asked: AskedRows | None = None) -> Work:
    """Returns work that stages only rows with their texts: those that `kept` returns, and those `asked` for."""

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for part, found in _found(parts, _NOTHING, _CHUNK_ROWS, asked):
            yield from _texts(part, kept(found))
            yield from _lines(part, found)

    return work


def packed_publishes(topics: Iterable[str], packing: Packing) -> Work:
    """Returns work that packs the publishes, gaps and settings of all subscriptions of some topics; counts nothing."""
    wanted = pa.array(sorted(topics), pa.string())

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for _, found in _found(parts, COLUMNS, packing.chunk_rows):
            names = ("topic", "event", "subscription")
            topic, event, subscription = (found.good.column(name).cast(pa.string()) for name in names)
            aside = pc.is_in(event, value_set=pa.array(["gap", "settings"]))
            of_all = pc.or_(pc.equal(event, "publish"), pc.and_(aside, pc.is_null(subscription)))
            of_wanted = pc.or_(pc.is_null(topic), pc.is_in(topic, value_set=wanted))
            packed = packing.pack(found.good.filter(pc.and_(of_all, of_wanted)))
            yield staged([of_topic for part in packed for of_topic in of_each_topic(part, wanted.to_pylist())])

    return work


def _found(
    parts: Iterator[Part], columns: Sequence[str], rows: int, asked: AskedRows | None = None
) -> Iterator[tuple[Part, RowsRead]]:
    for part in parts:
        yield from ((part, found) for found in part.read(columns, rows, asked))


def _texts(part: Part, rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        yield staged_payload(StagedKind.TEXTS, bytes(stream_of(rows)), part.file, part.begin)


def _lines(part: Part, found: RowsRead) -> Iterator[pa.RecordBatch]:
    if part.has_lines and found.lines:
        yield staged_payload(StagedKind.LINES, str(found.lines).encode(), part.file, part.begin)


def _shown(refused: pa.RecordBatch, texts_max: int) -> pa.RecordBatch:
    """Returns the rows that a message may name: those at which a log ends too early, and the first of each reason."""
    reasons = refused.column("refused").to_pylist()
    left = dict.fromkeys(reasons, texts_max)
    shown = []
    for reason in reasons:
        shown.append(reason == "cut_off" or left[reason] > 0)
        left[reason] -= 1
    return refused.filter(pa.array(shown, pa.bool_()))


class _Packer:
    """Packs the good rows of a task.

    Rows of small files are packed together: a packed batch costs as much as hundreds of rows, and a log of many
    partitions has some rows of each of them in each file.
    """

    def __init__(self, packing: Packing, put: Put) -> None:
        self.counts = RowCounts()  # of all rows of the task; the caller adds them
        self._keys = DistinctKeys()
        self._packing = packing
        self._put = put
        self._waiting: list[pa.RecordBatch] = []

    def packed(self, good: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the packed batches of good rows, as `STAGED_SCHEMA`; a few rows wait for others."""
        self._keys.add(good.column("key"))
        waiting = sum(batch.num_rows for batch in self._waiting)
        if self._waiting and (
            waiting + good.num_rows > self._packing.chunk_rows or good.schema != self._waiting[0].schema
        ):
            yield from self._packed()
        self._waiting.append(good)
        # Large batches do not wait, which would take memory and save little.
        if good.num_rows > self._packing.chunk_rows // 2:
            yield from self._packed()
        if self._keys.is_full:
            yield from self._new_keys()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that wait, and what else the task has found, as `STAGED_SCHEMA`."""
        yield from self._packed()
        yield from self._new_keys()
        # The worker is used again: release the memory of packing before it replays.
        pa.default_memory_pool().release_unused()
        yield staged_payload(StagedKind.COUNTS, self.counts.encode())

    def _packed(self) -> Iterator[pa.RecordBatch]:
        if self._waiting:
            together = pa.concat_batches(self._waiting)
            self._waiting = []
            yield staged(self._packing.pack(together), self._put)

    def _new_keys(self) -> Iterator[pa.RecordBatch]:
        payload = self._keys.take()
        if payload is not None:
            yield staged_payload(StagedKind.KEYS, payload)
