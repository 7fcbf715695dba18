"""From typed rows of a trace to chunks: what travels through the exchange.

One vectorized pass over an Arrow batch. Keys are hashed here and stay behind; a chunk holds the integer columns of
one group (topic, subscription), sorted, as one binary value, so that the exchange and the sort move thousands of
rows instead of billions. A publish belongs to every subscription of its topic.
"""

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.profile import Profile
from pipeline.replay.chunk import Chunk
from pipeline.replay.events import Code, Column, Events
from pipeline.replay.membership import Row
from pipeline.replay.producers import published
from pipeline.replay.snapshot import Position, SnapshotRow, parsed_position
from udfs.sticky_key_hash import hash_keys, keyless_keys

# The columns of a trace that the replay needs; nothing else is read.
COLUMNS = (
    "event",
    "phase",
    "seq",
    "ts_us",
    "topic",
    "subscription",
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

Groups = Mapping[str, Mapping[str, int]]
"""Number of each group, by topic and subscription."""

# The code of an event without a phase, or of its start; the end of one with phases is the next code.
_CODES = {
    "publish": Code.PUBLISH,
    "redeliver": Code.REDELIVER,
    "stats": Code.MARK_DELETE,
    "flow": Code.FLOW,
    "dispatch": Code.DISPATCH_START,
    "ack": Code.ACK_START,
    "join": Code.JOIN_START,
    "leave": Code.LEAVE_START,
    "reset": Code.RESET_START,
}
_EVENTS = pa.array(list(_CODES))
_CODE_OF_EVENT = np.array(list(_CODES.values()), dtype=np.int8)
_FIRST_WITH_PHASE = list(_CODES).index("dispatch")
_MEMBERSHIP = np.arange(Code.JOIN_START, Code.RESET_END + 1)


def pack(batch: pa.RecordBatch, groups: Groups, profile: Profile) -> list[Chunk]:
    """The chunks of one batch, one for each group that has rows in it.

    Args:
        batch: validated rows with `COLUMNS`, in any order.
        groups: every subscription that the trace names.
        profile: what stands in for the key of a keyless message.
    """
    if batch.num_rows == 0:
        return []
    events, source = _exploded(batch, _events(batch, profile))
    group, row = _group_numbers(batch, groups)
    # What was made of one row of the trace goes wherever that row goes.
    first = np.searchsorted(source, row, side="left")
    count = np.searchsorted(source, row, side="right") - first
    index = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
    group = np.repeat(group, count)
    order = np.lexsort((events.seq[index], group))
    group, index = group[order], index[order]
    if index.size == 0:
        return []  # publishes of a topic that nobody subscribed to
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    stops = np.append(starts[1:], group.size)
    return [
        _chunk(batch, int(group[start]), events.take(index[start:stop]), source[index[start:stop]])
        for start, stop in zip(starts, stops, strict=True)
    ]


def _events(batch: pa.RecordBatch, profile: Profile) -> Events:
    """One event a row; positions and ack sets are still folded up."""
    size = batch.num_rows
    event = pc.index_in(batch.column("event"), value_set=_EVENTS).to_numpy(zero_copy_only=False).astype(np.int8)
    late = pc.fill_null(pc.not_equal(batch.column("phase"), "start"), True).to_numpy(zero_copy_only=False)
    code = _CODE_OF_EVENT[event] + ((event >= _FIRST_WITH_PHASE) & late).astype(np.int8)
    delayed = pc.is_valid(batch.column("deliver_at_ms")).to_numpy(zero_copy_only=False)
    code[(code == Code.PUBLISH) & delayed] = Code.PUBLISH_DELAYED
    cumulative = pc.fill_null(pc.equal(batch.column("ack_type"), "cumulative"), False)
    code[cumulative.to_numpy(zero_copy_only=False)] = Code.ACK_CUMULATIVE
    murmur, key_id = _keys(batch, code, profile)
    ledger, entry = _ints(batch.column("ledger_id")), _ints(batch.column("entry_id"))
    marked = np.flatnonzero(code == Code.MARK_DELETE)
    if marked.size:
        positions = [_mark_delete(text) for text in batch.column("snapshot").take(pa.array(marked)).to_pylist()]
        known = np.array([position is not None for position in positions])
        ledger[marked[known]], entry[marked[known]] = np.array([p for p in positions if p], np.int64).reshape(-1, 2).T
        code[marked[~known]] = Code.OTHER
    return Events(
        code=code,
        part=np.zeros(size, dtype=np.int32),
        seq=_ints(batch.column("seq")),
        ts_us=_ints(batch.column("ts_us")),
        ledger=ledger,
        entry=entry,
        consumer=_ints(batch.column("consumer")),
        murmur=murmur,
        key_id=key_id,
        value=np.where(code == Code.FLOW, _ints(batch.column("permits")), _ints(batch.column("batch_size"), absent=1)),
        word=_redelivery_counts(batch, code),
        words_left=np.zeros(size, dtype=np.int32),
    )


def _redelivery_counts(batch: pa.RecordBatch, code: NDArray[np.int8]) -> NDArray[np.int32]:
    counts = _ints(batch.column("redelivery_count")).astype(np.int32)
    dispatched = (code == Code.DISPATCH_START) | (code == Code.DISPATCH_END)
    return np.where(dispatched, counts, 0).astype(np.int32)


def _ints(column: pa.Array, absent: int = -1) -> NDArray[np.int64]:
    values = pc.fill_null(column.cast(pa.int64()), absent).to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.int64)


def _mark_delete(snapshot: str | None) -> Position | None:
    return None if snapshot is None else parsed_position(json.loads(snapshot).get("mark_delete_position"))


def _keys(
    batch: pa.RecordBatch, code: NDArray[np.int8], profile: Profile
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """31-bit murmur value and key id of each row, -1 where it has no key."""
    murmur = np.full(batch.num_rows, -1, dtype=np.int64)
    key_id = np.full(batch.num_rows, -1, dtype=np.int64)
    keys = batch.column("key")
    given = np.flatnonzero(pc.is_valid(keys).to_numpy(zero_copy_only=False))
    murmur[given], key_id[given] = hash_keys(keys.take(pa.array(given)))
    # Who made a keyless message stands in its publish only; a dispatch of it finds the key there.
    keyless = np.flatnonzero(((code == Code.PUBLISH) | (code == Code.PUBLISH_DELAYED)) & (murmur < 0))
    if keyless.size:
        at = pa.array(keyless)
        stand_ins = keyless_keys(
            batch.column("producer_name").take(at), batch.column("sequence_id").take(at), profile.keyless
        )
        murmur[keyless], key_id[keyless] = hash_keys(stand_ins)
    return murmur, key_id


def _exploded(batch: pa.RecordBatch, events: Events) -> tuple[Events, NDArray[np.int64]]:
    """One row a position, and one a word where it has an ack set; with each the row of the batch it comes from."""
    size = batch.num_rows
    positions = batch.column("positions")
    lengths = _ints(pc.list_value_length(positions), absent=0)
    everything = (events.code == Code.REDELIVER) & (lengths == 0)
    events.code[everything] = Code.REDELIVER_ALL
    listed = lengths > 0
    if not listed.any():
        return events, np.arange(size)
    flat = pc.list_flatten(positions)
    parent = np.repeat(np.arange(size), lengths)
    sets = pc.struct_field(flat, "ack_set")
    words = _ints(pc.list_value_length(sets), absent=0)
    width = np.maximum(words, 1)
    within = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
    place = np.repeat(np.arange(parent.size), width)
    source = np.concatenate((np.flatnonzero(~listed), parent[place]))
    exploded = events.take(source)
    plain = int(source.size - place.size)
    exploded.ledger[plain:] = _ints(pc.struct_field(flat, "ledger_id"))[place]
    exploded.entry[plain:] = _ints(pc.struct_field(flat, "entry_id"))[place]
    partial = (words[place] > 0) & np.isin(exploded.code[plain:], [Code.ACK_START, Code.ACK_END])
    exploded.code[plain:][partial] += Code.ACK_PART_START - Code.ACK_START
    exploded.word[plain:] = within.astype(np.int32)
    exploded.words_left[plain:] = (width[place] - 1 - within).astype(np.int32)
    exploded.value[plain:][words[place] > 0] = _ints(pc.list_flatten(sets))
    order = np.argsort(source, kind="stable")
    exploded, source = exploded.take(order), source[order]
    begins = np.flatnonzero(np.diff(source, prepend=-1))
    exploded.part[:] = np.arange(source.size) - np.repeat(begins, np.diff(np.append(begins, source.size)))
    return exploded, source


def _group_numbers(batch: pa.RecordBatch, groups: Groups) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of a group and a row of the batch that belongs to it, ascending by row."""
    topics = pc.dictionary_encode(batch.column("topic"))
    subscriptions = pc.dictionary_encode(pc.fill_null(batch.column("subscription"), ""))
    published = np.isin(_ints(pc.index_in(batch.column("event"), value_set=pa.array(["publish"]))), [0])
    topic = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    subscription = subscriptions.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    known = [groups.get(name, {}) for name in topics.dictionary.to_pylist()]
    names = subscriptions.dictionary.to_pylist()
    numbers = np.array([[of_topic.get(name, -1) for name in names] for of_topic in known], dtype=np.int64)
    rows = np.flatnonzero(~published)
    group = numbers[topic[rows], subscription[rows]]
    for at, of_topic in enumerate(known):
        of_publish = np.flatnonzero(published & (topic == at))
        for number in of_topic.values():
            rows = np.concatenate((rows, of_publish))
            group = np.concatenate((group, np.full(of_publish.size, number, dtype=np.int64)))
    order = np.argsort(rows, kind="stable")
    return group[order], rows[order]


def _chunk(batch: pa.RecordBatch, group: int, events: Events, source: Column) -> Chunk:
    rows = np.unique(source[np.isin(events.code, _MEMBERSHIP)])
    membership = tuple(_membership_row(row) for row in batch.take(pa.array(rows)).to_pylist())
    snapshots = _snapshot_rows(batch, np.unique(source[np.isin(events.code, [Code.MARK_DELETE, Code.OTHER])]))
    sent = published(batch, source[np.isin(events.code, [Code.PUBLISH, Code.PUBLISH_DELAYED])])
    return Chunk(group, int(events.seq[0]), int(events.seq[-1]), events, tuple(sorted(membership)), snapshots, sent)


def _snapshot_rows(batch: pa.RecordBatch, rows: NDArray[np.int64]) -> tuple[SnapshotRow, ...]:
    told = batch.select(["seq", "ts_us", "snapshot"]).take(pa.array(rows)).to_pylist()
    return tuple(sorted(SnapshotRow(*row.values()) for row in told if row["snapshot"] is not None))


def _membership_row(row: dict[str, object]) -> Row:
    ranges = row["ranges"]
    return Row(
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
