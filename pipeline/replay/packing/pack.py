"""Turns typed rows of a trace into packed batches, which Spark exchanges.

It is one vectorized pass over an Arrow batch. Keys are hashed here and not passed on. A packed batch contains the
integer columns of one subscription, sorted, as one binary value, so that the exchange and the sort move thousands of
rows instead of billions.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.packing.encode import encoded_events, with_positions
from dispatch_audit.pipeline.replay.packing.events import Code, Column, Events
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.packing.narrow_events import narrow
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.replay.packing.producer_summary import published
from dispatch_audit.pipeline.replay.packing.snapshot import StatsRow
from dispatch_audit.pipeline.trace.parquet.arrow_columns import numbered, places

# The columns of a trace that the replay needs; nothing else is read.
COLUMNS = (
    "event",
    "phase",
    "seq",
    "ts_us",
    "topic",
    "subscription",
    "broker",
    "ledger_id",
    "entry_id",
    "batch_size",
    "key",
    "key_source",
    "batch_keys",
    "permits",
    "producer_name",
    "sequence_id",
    "deliver_at_ms",
    "consumer",
    "consumer_name",
    "redelivery_count",
    "ack_type",
    "positions",
    "key_shared_mode",
    "allow_out_of_order",
    "ranges",
    "reason",
    "snapshot",  # as JSON
)


class _Owner(NamedTuple):
    """What the rows of a packed batch have in common; the attributes are those of `PackedBatch`."""

    topic: str
    subscription: str | None
    broker: str | None


def _among(*codes: Code) -> NDArray[np.bool_]:
    """For each code whether it is one of these."""
    return np.isin(np.arange(max(Code) + 1), codes)


_MEMBERSHIP = _among(*(Code(code) for code in range(Code.JOIN_START, Code.RESET_END + 1)))
_SNAPSHOT = _among(Code.MARK_DELETE, Code.OTHER)
_PUBLISH = _among(Code.PUBLISH, Code.PUBLISH_DELAYED)

# A cut at least every 262,144 seqs; chunks of fewer rows than that are not worth their trouble.
_SPAN_BITS_MIN = 18
_CHUNK_ROWS_MIN = 4096


def pack(batch: pa.RecordBatch, profile: Profile) -> list[PackedBatch]:
    """The packed batches of one batch: for each recorder at least one for each subscription that has rows in it.

    They are cut at fixed seqs, so that however the rows are spread over batches, those of one subscription that have to
    be held side by side are bounded by the distance of two cuts and not by the length of the trace.

    Args:
        batch: validated rows with `COLUMNS`, in any order; texts may be dictionary-encoded.
        profile: what stands in for the key of a keyless message.
    """
    if batch.num_rows == 0:
        return []
    events, source = with_positions(batch, encoded_events(batch, profile))
    owners, owner = _owners(batch)
    owner = owner if source.size == batch.num_rows else owner[source]
    order = _order(owner, events.seq)
    owner, events, source = owner[order], events.take(order), source[order]
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(events.seq >> _span_bits(owner, events.seq)) != 0)) + 1
    starts, stops = np.concatenate(([0], cuts)), np.append(cuts, owner.size)
    return [
        _chunk(batch, owners[owner[start]], events.rows(start, stop), source[start:stop])
        for start, stop in zip(starts, stops, strict=True)
    ]


def _span_bits(group: NDArray[np.int64], seq: Column) -> int:
    """Between how many seqs, as a power of two, chunks are cut.

    Logs are written in about the order of time, so a batch of one spans few seqs. Where rows lie in no order it spans
    all of them, and cutting it as finely would make a chunk of every row.
    """
    pieces = max(group.size // _CHUNK_ROWS_MIN, int(np.count_nonzero(np.diff(group))) + 1)
    reach = (int(seq.max()) - int(seq.min()) + 1) * (int(np.count_nonzero(np.diff(group))) + 1)
    return max(_SPAN_BITS_MIN, (reach // pieces).bit_length())


def _order(group: NDArray[np.int64], seq: Column) -> NDArray[np.intp]:
    """The order by group and seq; what was made of one row stays together, and in its order."""
    if bool((seq[1:] >= seq[:-1]).all()):
        # Rows as logs have them: a sort of few small numbers, which numpy does by counting.
        return np.argsort(group.astype(np.int16) if group.max() < 2**15 else group, kind="stable")
    reach = int(seq.max()) - int(seq.min()) + 1
    if reach.bit_length() + int(group.max()).bit_length() < 63:
        return np.argsort(group * reach + (seq - seq.min()), kind="stable")
    return np.lexsort((seq, group))


def _owners(batch: pa.RecordBatch) -> tuple[list[_Owner], NDArray[np.int64]]:
    """The owners that a batch names, and the index of the owner of each row."""
    topics, topic = numbered(batch.column("topic"))
    names, subscription = numbered(batch.column("subscription"))
    brokers, broker = numbered(batch.column("broker"))
    published = places(batch.column("event"), ["publish"]) == 0
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
        _Owner(topics[at // len(brokers)] or "", names[name], brokers[at % len(brokers)])
        for at, name in zip(*np.nonzero(present), strict=True)
    ]
    return owners, number[recorder, subscription]


def _chunk(batch: pa.RecordBatch, owner: _Owner, events: Events, source: Column) -> PackedBatch:
    rows = np.unique(source[_MEMBERSHIP[events.code]])
    membership = tuple(_membership_row(row) for row in batch.take(pa.array(rows)).to_pylist()) if rows.size else ()
    snapshots = _snapshot_rows(batch, np.unique(source[_SNAPSHOT[events.code]]))
    publishes = source[_PUBLISH[events.code]]
    return PackedBatch(
        *owner,
        shared=publishes.size > 0,
        first_seq=int(events.seq[0]),
        last_seq=int(events.seq[-1]),
        events=narrow(events),
        membership=tuple(sorted(membership)),
        snapshots=snapshots,
        published=published(batch, publishes),
    )


def _snapshot_rows(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> tuple[StatsRow, ...]:
    if rows.size == 0:
        return ()
    found = batch.select(["seq", "ts_us", "snapshot"]).take(pa.array(rows)).to_pylist()
    return tuple(sorted(StatsRow(*row.values()) for row in found if row["snapshot"] is not None))


def _membership_row(row: dict[str, object]) -> MembershipEvent:
    ranges = row["ranges"]
    return MembershipEvent(
        seq=_number(row["seq"]),
        ts_us=_number(row["ts_us"]),
        kind=row["event"],  # type: ignore[arg-type]  # one of the three: the code says so
        late=row["phase"] != "start",
        consumer=_number(row["consumer"]),
        name=str(row["consumer_name"] or ""),
        sticky=row["key_shared_mode"] == "STICKY",
        out_of_order=row["allow_out_of_order"] is True,
        ranges=tuple((r["start"], r["end"]) for r in ranges) if isinstance(ranges, list) else (),
        reason=str(row["reason"] or ""),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1
