"""Writes the findings of the kernel as rows of `output.FINDING`."""

from typing import NamedTuple

from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import (
    FINDINGS,
    Output,
)
from dispatch_audit.pipeline.replay.state.state import (
    IN_EVIDENCE,
    NOBODY,
    READ,
    UNKNOWN,
    State,
)


class Dispatch(NamedTuple):
    """One decision of the dispatcher to send an entry of a hash to a consumer, which may not own the hash."""

    seq: int
    ts_us: int
    ledger: int
    entry: int
    hash_at: int
    key_id: int
    consumer: int
    owner: int
    redelivery_count: int


@compiled
def report(state: State, out: Output, rule: int, slot: int, sent: Dispatch) -> int:
    """Writes the finding that a dispatch broke a rule; returns the row, to which the rule may add values."""
    row = out.filled[FINDINGS]
    out.filled[FINDINGS] = row + 1
    found, hashes = out.findings, state.hashes
    found[row].rule = rule
    found[row].seq = sent.seq
    found[row].ts_us = sent.ts_us
    found[row].ledger = sent.ledger
    found[row].entry = sent.entry
    found[row].hash = hashes[sent.hash_at].hash
    found[row].key_id = sent.key_id
    found[row].consumer = sent.consumer
    found[row].other_consumer = NOBODY
    found[row].other_seq = UNKNOWN
    found[row].other_ledger = UNKNOWN
    found[row].other_entry = UNKNOWN
    found[row].other_key_id = UNKNOWN
    found[row].draining = hashes[sent.hash_at].away
    found[row].acknowledged = 0
    found[row].marks = state.entries[slot].marks
    found[row].other_marks = 0
    found[row].since_seq = state.entries[slot].since_seq
    found[row].since_ts = state.entries[slot].since_ts
    some_wait = hashes[sent.hash_at].waiting > 0
    found[row].hash_since_seq = hashes[sent.hash_at].waiting_since_seq if some_wait else UNKNOWN
    found[row].hash_since_ts = hashes[sent.hash_at].waiting_since_ts if some_wait else UNKNOWN
    found[row].other_since_seq = UNKNOWN
    found[row].other_since_ts = UNKNOWN
    found[row].other_ts = UNKNOWN
    found[row].sent_before_to = state.entries[slot].sent_to
    found[row].sent_before_seq = state.entries[slot].sent_seq
    was_read = state.entries[slot].marks & READ != 0
    found[row].read_ts = state.entries[slot].read_ts if was_read else UNKNOWN
    found[row].receiver_sent_ts = state.consumers[sent.consumer].sent_ts
    found[row].left_sent_seq = hashes[sent.hash_at].left_sent_seq
    found[row].value = UNKNOWN
    found[row].expected = UNKNOWN
    found[row].limited = 0
    found[row].largest = 0
    found[row].vague = 0
    found[row].permitted = 0
    return int(row)


@compiled
def report_against(state: State, out: Output, rule: int, slot: int, sent: Dispatch, other: int) -> int:
    """Writes the finding that a dispatch broke a rule because of another entry; returns the row."""
    row = report(state, out, rule, slot, sent)
    found, entries = out.findings, state.entries
    entries[other].marks |= IN_EVIDENCE
    found[row].other_consumer = entries[other].sent_to
    found[row].other_seq = entries[other].sent_seq
    found[row].other_ledger = entries[other].ledger
    found[row].other_entry = entries[other].entry
    found[row].other_key_id = entries[other].key_id
    found[row].other_marks = entries[other].marks
    found[row].other_since_seq = entries[other].since_seq
    found[row].other_since_ts = entries[other].since_ts
    found[row].other_ts = entries[other].sent_ts
    return row


@compiled
def report_row(state: State, out: Output, rule: int, events: Events, i: int, consumer: int) -> int:
    """Writes a finding that a single row of the trace shows; returns the row of the finding."""
    row = out.filled[FINDINGS]
    out.filled[FINDINGS] = row + 1
    found = out.findings
    found[row].rule = rule
    found[row].seq = events.seq[i]
    found[row].ts_us = events.ts_us[i]
    found[row].ledger = events.ledger[i]
    found[row].entry = events.entry[i]
    found[row].hash = UNKNOWN
    found[row].key_id = UNKNOWN
    found[row].consumer = consumer
    found[row].other_consumer = NOBODY
    found[row].other_seq = UNKNOWN
    found[row].other_ledger = UNKNOWN
    found[row].other_entry = UNKNOWN
    found[row].other_key_id = UNKNOWN
    found[row].draining = 0
    found[row].acknowledged = 0
    found[row].marks = 0
    found[row].other_marks = 0
    found[row].since_seq = UNKNOWN
    found[row].since_ts = UNKNOWN
    found[row].hash_since_seq = UNKNOWN
    found[row].hash_since_ts = UNKNOWN
    found[row].other_since_seq = UNKNOWN
    found[row].other_since_ts = UNKNOWN
    found[row].other_ts = UNKNOWN
    found[row].sent_before_to = NOBODY
    found[row].sent_before_seq = UNKNOWN
    found[row].read_ts = UNKNOWN
    found[row].receiver_sent_ts = UNKNOWN
    found[row].left_sent_seq = UNKNOWN
    found[row].value = UNKNOWN
    found[row].expected = UNKNOWN
    found[row].limited = 0
    found[row].largest = 0
    found[row].vague = 0
    found[row].permitted = 0
    return int(row)
