"""Encodes the columns of a trace as integer columns of events."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.packing.events import NEVER_DUE, NO_MURMUR, Code, Events
from dispatch_audit.pipeline.packing.gap import note_gaps
from dispatch_audit.pipeline.packing.snapshot import Position, parsed_position
from dispatch_audit.pipeline.trace.arrow_columns import integers, places
from dispatch_audit.udfs.sticky_key_hash import hash_keys, keyless_keys

# The code of an event without a phase, or of its start; the end of one with phases is the next code.
_CODES = {
    "publish": Code.PUBLISH,
    "redeliver": Code.REDELIVER,
    "stats": Code.MARK_DELETE,
    "flow": Code.FLOW,
    "gap": Code.GAP,
    "settings": Code.SETTINGS,
    "heartbeat": Code.RECORDER,
    "hang": Code.RECORDER,
    "end": Code.RECORDER,
    "dispatch": Code.DISPATCH_START,
    "ack": Code.ACK_START,
    "join": Code.JOIN_START,
    "leave": Code.LEAVE_START,
    "reset": Code.RESET_START,
}
_EVENTS = list(_CODES)
_CODE_OF_EVENT = np.array(list(_CODES.values()), dtype=np.int8)
_FIRST_WITH_PHASE = _EVENTS.index("dispatch")


def encoded_events(batch: pa.RecordBatch, profile: Profile, digested: bool = False) -> Events:
    """One event for each checked row; rows with several positions or ack sets are expanded later (`with_positions`).

    The profile says what stands in for the key of a keyless message. If keys are digests (`digested`), their hashes are
    recorded beside them.
    """
    size = batch.num_rows
    event = places(batch.column("event"), _EVENTS)
    late = places(batch.column("phase"), ["start"]) < 0
    code = _CODE_OF_EVENT[event] + ((event >= _FIRST_WITH_PHASE) & late).astype(np.int8)
    if batch.column("deliver_at_ms").null_count < size:
        delayed = pc.is_valid(batch.column("deliver_at_ms")).to_numpy(zero_copy_only=False)
        code[(code == Code.PUBLISH) & delayed] = Code.PUBLISH_DELAYED
    code[places(batch.column("ack_type"), ["cumulative"]) == 0] = Code.ACK_CUMULATIVE
    murmur, key_id = _keys(batch, code, profile)
    if digested:
        murmur = _recorded_hashes(batch, murmur)
    ledger, entry = integers(batch.column("ledger_id")), integers(batch.column("entry_id"))
    marked = np.flatnonzero(code == Code.MARK_DELETE)
    if marked.size:
        positions = [_mark_delete(text) for text in batch.column("snapshot").take(pa.array(marked)).to_pylist()]
        known = np.array([position is not None for position in positions])
        ledger[marked[known]], entry[marked[known]] = np.array([p for p in positions if p], np.int64).reshape(-1, 2).T
        code[marked[~known]] = Code.OTHER
    events = Events(
        code=code,
        part=np.zeros(size, dtype=np.int32),
        seq=integers(batch.column("seq")),
        ts_us=integers(batch.column("ts_us")),
        ledger=ledger,
        entry=entry,
        consumer=integers(batch.column("consumer")),
        murmur=murmur,
        key_id=key_id,
        value=_values(batch, code),
        word=_words(batch, code),
        words_left=-pc.is_valid(batch.column("transaction")).to_numpy(zero_copy_only=False).astype(np.int32),
    )
    note_gaps(batch, events)
    return events


def _values(batch: pa.RecordBatch, code: NDArray[np.int8]) -> NDArray[np.int64]:
    sizes, flows = integers(batch.column("batch_size"), absent=1), np.flatnonzero(code == Code.FLOW)
    if flows.size:
        sizes[flows] = integers(batch.column("permits").take(pa.array(flows)))
    return sizes


def _words(batch: pa.RecordBatch, code: NDArray[np.int8]) -> NDArray[np.int32]:
    """Redelivery counts of dispatches and delays of publishes."""
    counts = integers(batch.column("redelivery_count")).astype(np.int32)
    dispatched = (code == Code.DISPATCH_START) | (code == Code.DISPATCH_END)
    words = np.where(dispatched, counts, 0).astype(np.int32)
    delayed = np.flatnonzero(code == Code.PUBLISH_DELAYED)
    if delayed.size:
        rows = pa.array(delayed)
        delays = integers(batch.column("deliver_at_ms").take(rows)) - integers(batch.column("ts_us").take(rows)) // 1000
        words[delayed] = np.clip(delays, -NEVER_DUE, NEVER_DUE)
    return words


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
    if given.size:
        murmur[given], key_id[given] = hash_keys(keys.take(pa.array(given)))
    # Only the publish of a keyless message has its producer; a dispatch takes the key from the publish.
    keyless = np.flatnonzero(((code == Code.PUBLISH) | (code == Code.PUBLISH_DELAYED)) & (murmur < 0))
    if keyless.size:
        at = pa.array(keyless)
        stand_ins = keyless_keys(
            batch.column("producer_name").take(at), batch.column("sequence_id").take(at), profile.keyless
        )
        murmur[keyless], key_id[keyless] = hash_keys(stand_ins)
    return murmur, key_id


def _recorded_hashes(batch: pa.RecordBatch, murmur: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes that rows have beside the digests of keys, as `Events.murmur`; keyless messages have a key to hash."""
    hashes = integers(batch.column("sticky_hash"))
    keyless = pc.is_null(batch.column("key")).to_numpy(zero_copy_only=False)
    return np.where(hashes >= 0, NO_MURMUR - hashes, np.where(keyless, murmur, -1))


def with_positions(batch: pa.RecordBatch, events: Events) -> tuple[Events, NDArray[np.int64]]:
    """One event for each position, or for each word of its ack set; and the row of the batch of each event."""
    size = batch.num_rows
    positions = batch.column("positions")
    lengths = integers(pc.list_value_length(positions), absent=0)
    everything = (events.code == Code.REDELIVER) & (lengths == 0)
    events.code[everything] = Code.REDELIVER_ALL
    listed = lengths > 0
    if not listed.any():
        return events, np.arange(size)
    flat = pc.list_flatten(positions)
    ledger, entry = integers(pc.struct_field(flat, "ledger_id")), integers(pc.struct_field(flat, "entry_id"))
    sets = pc.struct_field(flat, "ack_set")
    words = integers(pc.list_value_length(sets), absent=0)
    if lengths.max() == 1 and not words.any():
        # The usual case: one whole entry.
        events.ledger[listed], events.entry[listed] = ledger, entry
        return events, np.arange(size)
    width = np.maximum(words, 1)
    position = np.repeat(np.arange(len(flat)), width)
    within = np.arange(position.size) - np.repeat(np.cumsum(width) - width, width)
    rows = np.ones(size, dtype=np.int64)
    rows[listed] = np.add.reduceat(width, (np.cumsum(lengths) - lengths)[listed])
    source = np.repeat(np.arange(size), rows)
    exploded = events.take(source)
    at = np.flatnonzero(listed[source])
    exploded.ledger[at], exploded.entry[at] = ledger[position], entry[position]
    exploded.part[:] = np.arange(source.size) - np.repeat(np.cumsum(rows) - rows, rows)
    partial = at[(words[position] > 0) & np.isin(exploded.code[at], [Code.ACK_START, Code.ACK_END])]
    exploded.code[partial] += Code.ACK_PART_START - Code.ACK_START
    exploded.word[at] = within.astype(np.int32)
    left = (width[position] - 1 - within).astype(np.int32)
    exploded.words_left[at] = np.where(exploded.words_left[at] < 0, ~left, left)
    exploded.value[at[words[position] > 0]] = integers(pc.list_flatten(sets))
    return exploded, source
