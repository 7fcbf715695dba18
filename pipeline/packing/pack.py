"""Turns typed rows of a trace into packed batches, which Spark exchanges.

It is one vectorized pass over an Arrow batch. Keys are hashed here and not passed on. A packed batch contains the
integer columns of one subscription, sorted, as one binary value, so that the exchange and the sort move thousands of
rows instead of billions.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.packing.encode import encoded_events, with_positions
from dispatch_audit.pipeline.packing.events import Code, Column, Events, among
from dispatch_audit.pipeline.packing.gap import of_topics
from dispatch_audit.pipeline.packing.hashes import of_sample
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.narrow_events import narrow_parts
from dispatch_audit.pipeline.packing.packed_batch import Detail, PackedBatch
from dispatch_audit.pipeline.packing.producer_summary import NOTHING, published_parts
from dispatch_audit.pipeline.packing.rows_aside import RECORDER_COLUMNS as _OF_RECORDER
from dispatch_audit.pipeline.packing.rows_aside import SETTINGS_COLUMNS as _OF_SETTINGS
from dispatch_audit.pipeline.packing.rows_aside import recorder_rows, settings_rows
from dispatch_audit.pipeline.packing.snapshot import StatsRow
from dispatch_audit.pipeline.trace.arrow_columns import numbered
from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

_OF_SNAPSHOTS = ("seq", "ts_us", "snapshot")
_OF_CHANGES = (
    "seq",
    "ts_us",
    "event",
    "phase",
    "consumer",
    "consumer_name",
    "key_shared_mode",
    "allow_out_of_order",
    "ranges",
    "reason",
    "error",
)
COLUMNS = tuple(
    dict.fromkeys(
        (
            *_OF_CHANGES,
            *_OF_SNAPSHOTS,  # the snapshot as JSON
            *_OF_SETTINGS,
            *_OF_RECORDER,
            "topic",
            "broker",
            "ledger_id",
            "entry_id",
            "batch_size",
            "key",
            "key_source",
            "sticky_hash",
            "batch_keys",
            "permits",
            "producer_name",
            "publish_time_ms",
            "sequence_id",
            "deliver_at_ms",
            "transaction",
            "redelivery_count",
            "ack_type",
            "positions",
            "seq_end",
            "dropped",
            "dropped_events",
        )
    )
)
"""The columns of a trace that the replay needs; nothing else is read."""

_Owner: TypeAlias = tuple[str, str | None, str | None]
"""Topic, subscription and recorder of the rows of a packed batch, as in `PackedBatch`."""

_MEMBERSHIP = among(*(Code(code) for code in range(Code.JOIN_START, Code.RESET_END + 1)))
_SNAPSHOT = among(Code.MARK_DELETE, Code.OTHER)
_SETTINGS = among(Code.SETTINGS)
_RECORDER = among(Code.RECORDER)
_PUBLISH = among(Code.PUBLISH, Code.PUBLISH_DELAYED)

# A cut at least every 262,144 seqs; a packed batch of fewer rows costs more than its rows.
_SPAN_BITS_MIN = 18
_BATCH_ROWS_MIN = 4096


def pack(
    batch: pa.RecordBatch, profile: Profile, digested: bool = False, sample: HashSample = EVERY_HASH
) -> list[PackedBatch]:
    """The packed batches of one batch: for each recorder at least one for each subscription that has rows in it.

    They are cut at fixed seqs, so that however the rows are spread over batches, those of one subscription that have to
    be held side by side are bounded by the distance of two cuts and not by the length of the trace. Rows have `COLUMNS`
    and come in any order; texts may be dictionary-encoded.
    """
    if batch.num_rows == 0:
        return []
    of_rows = encoded_events(batch, profile, digested)
    if not sample.is_all:
        sampled = of_sample(batch, of_rows, sample, profile)
        batch, of_rows = batch.filter(pa.array(sampled)), of_rows.take(np.flatnonzero(sampled))
        if batch.num_rows == 0:
            return []
    owners, owner = _owners(batch, _PUBLISH[of_rows.code])
    events, source = with_positions(batch, of_rows)
    owner = owner if source.size == batch.num_rows else owner[source]
    order = _order(owner, events.seq)
    owner, events, source = owner[order], events.take(order), source[order]
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(events.seq >> _span_bits(owner, events.seq)) != 0)) + 1
    starts = np.concatenate(([0], cuts))
    details = _details(batch, events, source, starts)
    publishes = np.flatnonzero(_PUBLISH[events.code])
    published = published_parts(batch, source[publishes], _numbers_of(publishes, starts))
    shared = {*published, *_numbers_of(np.flatnonzero(of_topics(events)), starts).tolist()}
    owners_of = [owners[number] for number in owner[starts].tolist()]
    parts = enumerate(zip(owners_of, narrow_parts(events, starts), strict=True))
    return [
        PackedBatch(
            topic,
            subscription,
            broker,
            shared=number in shared,
            events=rows,
            details=tuple(details[number]),
            published=published.get(number, NOTHING),
        )
        for number, ((topic, subscription, broker), rows) in parts
    ]


def _span_bits(group: NDArray[np.int64], seq: Column) -> int:
    """Between how many seqs, as a power of two, packed batches are cut.

    Logs are written in about the order of time, so a batch of one spans few seqs. Where rows lie in no order it spans
    all of them, and cutting it as finely would make a packed batch of every row.
    """
    pieces = max(group.size // _BATCH_ROWS_MIN, int(np.count_nonzero(np.diff(group))) + 1)
    reach = (int(seq.max()) - int(seq.min()) + 1) * (int(np.count_nonzero(np.diff(group))) + 1)
    return max(_SPAN_BITS_MIN, (reach // pieces).bit_length())


def _order(group: NDArray[np.int64], seq: Column) -> NDArray[np.intp]:
    """The order by group and seq; what was made of one row stays together, and in its order."""
    if bool((seq[1:] >= seq[:-1]).all()):
        # Rows as logs have them: a sort of few small numbers, which numpy does by counting.
        return np.argsort(group.astype(np.int16) if group.max() < 2**15 else group, kind="stable")
    reach = int(seq.max()) - int(seq.min()) + 1
    if reach.bit_length() + int(group.max()).bit_length() < 63:
        both = group * reach + (seq - seq.min())
        # Numpy's fastest sort does not keep the order of equal numbers; without any it gives the same order.
        order = np.argsort(both)
        ordered = both[order]
        return np.argsort(both, kind="stable") if (ordered[1:] == ordered[:-1]).any() else order
    return np.lexsort((seq, group))


def _owners(batch: pa.RecordBatch, published: NDArray[np.bool_]) -> tuple[list[_Owner], NDArray[np.int64]]:
    """The owners that a batch names, and the index of the owner of each row, given which rows are publishes."""
    topics, topic = numbered(batch.column("topic"))
    names, subscription = numbered(batch.column("subscription"))
    brokers, broker = numbered(batch.column("broker"))
    subscription = np.where(published, len(names) - 1, subscription)
    recorder = topic * len(brokers) + broker
    present = np.zeros((len(topics) * len(brokers), len(names)), dtype=np.bool_)
    present[recorder, subscription] = True
    # If a recorder names one subscription of the topic, the publishes stand among its rows.
    alone = present[:, -1] & (present[:, :-1].sum(axis=1) == 1)
    only = present.argmax(axis=1)
    number = np.where(present, np.cumsum(present).reshape(present.shape) - 1, -1)
    number[alone, -1] = number[alone, only[alone]]
    owners = [
        (topics[at // len(brokers)] or "", names[name], brokers[at % len(brokers)])
        for at, name in zip(*np.nonzero(present), strict=True)
    ]
    return owners, number[recorder, subscription]


def _details(
    batch: pa.RecordBatch, events: Events, source: Column, starts: NDArray[np.intp]
) -> defaultdict[int, list[Detail]]:
    """The details of rows by the number of their packed batch, given the row of each event, and where batches start."""
    found: defaultdict[int, list[Detail]] = defaultdict(list)
    for codes, columns, rows_of in (
        (_MEMBERSHIP, _OF_CHANGES, _membership_rows),
        (_SNAPSHOT, _OF_SNAPSHOTS, _stats_rows),
        (_SETTINGS, _OF_SETTINGS, settings_rows),
        (_RECORDER, _OF_RECORDER, recorder_rows),
    ):
        at = np.flatnonzero(codes[events.code])
        at = at[events.part[at] == 0]
        if at.size:
            details = rows_of(batch.select(columns).take(pa.array(source[at])))
            for number, detail in zip(_numbers_of(at, starts).tolist(), details, strict=True):
                if detail is not None:
                    found[number].append(detail)
    return found


def _numbers_of(at: NDArray[np.intp], starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of the packed batch of each event."""
    return np.searchsorted(starts, at, side="right") - 1


def _stats_rows(rows: pa.RecordBatch) -> Iterator[StatsRow | None]:
    """The snapshots of `stats` rows; None: a row has none."""
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return (None if row[-1] is None else StatsRow._make(row) for row in values)


def _membership_rows(rows: pa.RecordBatch) -> Iterator[MembershipEvent]:
    """The details of joins, leaves and resets."""
    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        seq, ts_us, kind, phase, consumer, name, mode, out_of_order, ranges, reason, error = values
        # Positional arguments: a partition has dozens of these rows, and keywords take as long as the rest.
        yield MembershipEvent(
            -1 if seq is None else seq,
            -1 if ts_us is None else ts_us,
            kind,
            phase != "start",
            -1 if consumer is None else consumer,
            name or "",
            mode == "STICKY",
            out_of_order is True,
            tuple([(r["start"], r["end"]) for r in ranges]) if ranges else (),
            reason or "",
            error or "",
        )
