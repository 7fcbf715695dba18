"""Counts what producers sent: batches, batches of several keys, keyless and chunked messages (Q29; contract 1.1, 1.5).

Rows are counted where they are packed, because names, batch keys and sequence ids do not travel with the events. Every
packed batch has a small summary instead, and the summaries of a group are added up. A summary has a record for each
producer name, of which a topic has few at one time.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Column
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.trace.arrow_columns import integers, numbered, places

# Mixed batches that are shown; their number is counted.
SHOWN_MAX: Final = 20
# Keys of a batch that are shown.
_KEYS_MAX = 10


@checkpointed("sent")
class SentByProducer(NamedTuple):
    """What one producer sent, as far as one packed batch shows, or all so far."""

    producer: str | None  # its name; None: it has none
    entries: int  # published, each batch one
    messages: int  # in them
    batches: int  # entries of more than one message
    batches_inspected: int  # those whose keys are recorded
    mixed_batches: int  # those with more than one key; no key counts as a key too
    keyless: int  # entries without a key
    chunked: int  # entries with the sequence id of the producer's entry before
    first: tuple[int, int | None]  # seq and sequence id (None: not recorded) of the first entry
    last: tuple[int, int | None]  # seq and sequence id of the last entry
    # The least time from the producer's stamp on an entry to its row, by their two clocks; None: not known, or not
    # needed, because the rows name no recorder.
    late_us: int | None = None
    ordering: int = 0  # entries with an ordering key
    again: int = 0  # entries with a sequence id and key that the producer had used before, chunks aside
    # Row, time and position of the first of these; None: there is none.
    again_first: tuple[int, int, int, int] | None = None

    def followed_by(self, other: "SentByProducer") -> "SentByProducer":
        """Both together; `other` was sent later."""
        sums = (count + more for count, more in zip(self[1:7], other[1:7], strict=True))
        continued = self.last[1] is not None and self.last[1] == other.first[1]
        chunked = self.chunked + other.chunked + continued
        late_us = min((late for late in (self.late_us, other.late_us) if late is not None), default=None)
        more = self.ordering + other.ordering, self.again + other.again, self.again_first or other.again_first
        whole = (self.producer, *sums, chunked, self.first, other.last, late_us)
        return SentByProducer._make((*whole, *more))


@checkpointed("mixed_batch")
class MixedBatch(NamedTuple):
    """A batch of messages with several keys."""

    seq: int  # the row of its publish
    ts_us: int  # the time of that row
    ledger: int  # the ledger of the batch
    entry: int  # its entry id
    producer: str | None  # name of the producer; None: it has none
    messages: int  # in the batch
    keys: tuple[str | None, ...]  # some of them, each once, in the order of the messages; None: messages without a key
    keys_total: int  # how many different ones there are


class Published(NamedTuple):
    """What a packed batch shows of the producers of its topic."""

    sent: tuple[SentByProducer, ...]  # a record for each producer
    mixed: tuple[MixedBatch, ...]  # the first batches of several keys, by seq


NOTHING: Final = Published((), ())
_ROW: Final = ("seq", "ts_us", "ledger_id", "entry_id")
_Again: TypeAlias = tuple[list[int], list[tuple[int, int, int, int] | None]]


@checkpointed("producers")
@dataclass(eq=False, slots=True)
class Producers:
    """The producers of one subscription's topic, batch by batch.

    A row that another packed batch repeats is counted once more here: repeated rows are dropped only where batches are
    merged, and the summaries do not name their rows.
    """

    mixed: list[MixedBatch] = field(default_factory=list)  # the first batches of several keys
    _parts: list[SentByProducer] = field(default_factory=list)

    def add(self, published: Published) -> None:
        """Adds the summary of another packed batch."""
        self._parts += published.sent
        if len(self._parts) > _PARTS_MAX:
            self.all()
        self.mixed = sorted([*self.mixed, *published.mixed], key=lambda b: b.seq)[:SHOWN_MAX]

    def forget(self) -> None:
        """Restarts the counts after the last entry of each producer, because a chunked message may continue there."""
        self._parts = [SentByProducer(sent.producer, 0, 0, 0, 0, 0, 0, 0, sent.last, sent.last) for sent in self.all()]
        self.mixed = []

    def all(self) -> list[SentByProducer]:
        """All producers, those with most entries first. Packed batches come in any order of time, so it sorts them."""
        together: dict[str | None, SentByProducer] = {}
        for part in sorted(self._parts, key=lambda sent: sent.first[0]):
            before = together.get(part.producer)
            together[part.producer] = part if before is None else before.followed_by(part)
        self._parts = list(together.values())
        return sorted(self._parts, key=lambda sent: (-sent.entries, sent.producer or ""))


def published_parts(batch: pa.RecordBatch, rows: Column, part: NDArray[np.intp]) -> dict[int, Published]:
    """What the publishes in each part of the rows of a trace show of their producers, by the number of the part.

    Args:
        batch: typed rows (`pack.COLUMNS`).
        rows: the publishes among them, by part, each part those of one topic in the order of seq.
        part: the number of the part of each, ascending.
    """
    if rows.size == 0:
        return {}
    seq = integers(batch.column("seq"))
    again = (np.diff(seq[rows]) == 0) & (np.diff(part) == 0)
    if again.any():
        # The replay leaves out all but the first of the rows of one seq.
        once = np.append(True, ~again)
        rows, part = rows[once], part[once]
    names, producer = numbered(batch.column("producer_name"))
    messages = integers(batch.column("batch_size"), 1)
    inspected, several = _inspected(batch.column("batch_keys"))
    batches = messages > 1
    mixed = batches & several
    keyless = (places(batch.column("key_source"), ["none"]) == 0) | _mask(pc.is_null(batch.column("key")))
    # Entries by producer, each in the order of seq: repetitions stand side by side.
    sender = part * len(names) + producer[rows]
    order = np.argsort(sender, kind="stable")
    ordered, sender = rows[order], sender[order]
    seq, sequence = seq[ordered], integers(batch.column("sequence_id"))[ordered]
    is_known = _mask(pc.is_valid(batch.column("sequence_id")))[ordered]
    first = np.append(True, sender[1:] != sender[:-1])
    starts = np.flatnonzero(first)
    lasts = np.append(starts[1:], ordered.size) - 1
    chunked = ~first
    chunked[1:] &= (sequence[1:] == sequence[:-1]) & is_known[1:] & is_known[:-1]
    ordering = places(batch.column("key_source"), ["ordering_key"]) == 0
    again = _again(batch, ordered, starts, np.where(is_known, sequence, -1))
    counted = (*(column[ordered] for column in (messages, batches, batches & inspected, mixed, keyless)), chunked)
    sums = [np.add.reduceat(column, starts, dtype=np.int64).tolist() for column in counted]
    ends = [
        [
            (at, number if known else None)
            for at, number, known in zip(
                seq[bounds].tolist(), sequence[bounds].tolist(), is_known[bounds].tolist(), strict=True
            )
        ]
        for bounds in (starts, lasts)
    ]
    entries = (lasts - starts + 1).tolist()
    late_us = _late_us(batch, ordered, starts)
    of_keys = np.add.reduceat(ordering[ordered], starts, dtype=np.int64).tolist()
    part_of, producer = np.divmod(sender[starts], len(names))
    producers = [names[number] for number in producer.tolist()]
    sent: dict[int, list[SentByProducer]] = {}
    columns = (*sums, *ends, late_us, of_keys, *again)
    for number, *values in zip(part_of.tolist(), producers, entries, *columns, strict=True):
        sent.setdefault(number, []).append(SentByProducer._make(values))
    shown = _mixed_batches(batch, rows[mixed[rows]], part[mixed[rows]])
    return {number: Published(tuple(of_part), shown.get(number, ())) for number, of_part in sent.items()}


def _again(batch: pa.RecordBatch, rows: Column, starts: NDArray[np.intp], sequence: Column) -> _Again:
    """`SentByProducer.again` and `again_first` of each producer, given the rows of its entries and where they start.

    A producer that is made anew may begin with the same sequence ids: such entries count only if the producer's stamp
    on both is the same.
    """
    numbers = [0] * starts.size
    firsts: list[tuple[int, int, int, int] | None] = [None] * starts.size
    ends, stamps = np.append(starts[1:], rows.size), integers(batch.column("publish_time_ms"))
    # As a rule sequence ids ascend, and nothing has to be looked at.
    back = np.flatnonzero(np.diff(sequence) < 0) + 1
    for at in np.unique(np.searchsorted(starts, back[~np.isin(back, starts)], side="right") - 1).tolist():
        own = slice(int(starts[at]), int(ends[at]))
        keys = batch.column("key").take(pa.array(rows[own])).to_pylist()
        seen: dict[tuple[int, bytes], tuple[int, int]] = {}
        found = []
        for place, one in enumerate(zip(sequence[own].tolist(), keys, stamps[rows[own]].tolist(), strict=True)):
            number, key, stamp = one
            before, stamped = seen.get((number, key), (place, -1))
            if number >= 0 and before < place - 1:
                found.append((place, number, stamp == stamped >= 0))
            seen[number, key] = place, stamp
        if found and (found[0][1] > min(number for number, _ in seen) or all(same for *_, same in found)):
            row = int(rows[own][found[0][0]])
            seq, ts_us, ledger, entry = (int(integers(batch.column(of))[row]) for of in _ROW)
            numbers[at], firsts[at] = len(found), (seq, ts_us, ledger, entry)
    return numbers, firsts


def _late_us(batch: pa.RecordBatch, rows: Column, starts: NDArray[np.intp]) -> list[int | None]:
    """`SentByProducer.late_us` of each producer, given the rows of its entries and where they start."""
    stamped = batch.column("publish_time_ms")
    if stamped.null_count == len(stamped) or batch.column("broker").null_count == len(stamped):
        return [None] * starts.size
    stamps = integers(stamped)[rows]
    late_us = np.where(stamps >= 0, integers(batch.column("ts_us"))[rows] - stamps * 1_000, NEVER)
    return [None if late == NEVER else late for late in np.minimum.reduceat(late_us, starts).tolist()]


def _mixed_batches(batch: pa.RecordBatch, rows: Column, part: NDArray[np.intp]) -> dict[int, tuple[MixedBatch, ...]]:
    """The first batches of several keys of each part, given the rows of all of them and the part of each."""
    shown: dict[int, tuple[MixedBatch, ...]] = {}
    for number in np.unique(part).tolist():
        of_part = rows[part == number][:SHOWN_MAX]
        shown[number] = tuple(map(_mixed, batch.select(_SHOWN).take(pa.array(of_part)).to_pylist()))
    return shown


_SHOWN = ["seq", "ts_us", "ledger_id", "entry_id", "producer_name", "batch_size", "batch_keys"]


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _inspected(batch_keys: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the keys of the messages of each entry are recorded, and whether they are several."""
    several = np.zeros(len(batch_keys), dtype=np.bool_)
    if batch_keys.null_count == len(batch_keys):
        return several, several
    sizes = integers(pc.list_value_length(batch_keys), 0)
    filled = np.flatnonzero(sizes)
    if filled.size:
        flat = pc.dictionary_encode(pc.list_flatten(batch_keys), null_encoding="encode")
        codes = flat.indices.to_numpy(zero_copy_only=False)
        starts = (np.cumsum(sizes) - sizes)[filled]
        several[filled] = np.minimum.reduceat(codes, starts) != np.maximum.reduceat(codes, starts)
    return _mask(pc.is_valid(batch_keys)), several


def _mixed(row: dict[str, object]) -> MixedBatch:
    *about, recorded = row.values()
    keys = tuple(dict.fromkeys(recorded))  # type: ignore[call-overload]  # the schema of the trace says so
    return MixedBatch._make((*about, keys[:_KEYS_MAX], len(keys)))


# The number of records that are kept before they are added up.
_PARTS_MAX = 100_000
