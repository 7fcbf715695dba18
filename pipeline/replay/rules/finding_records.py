"""Writes the findings of the kernel as rows of `output.FINDING`."""

from typing import NamedTuple

from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import FINDINGS, NOTHING_KNOWN, Output
from dispatch_audit.pipeline.replay.state.records import position_of
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByRules
from dispatch_audit.pipeline.replay.state.values import Mark


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
def _new_row(out: Output, rule: int, seq: int, ts_us: int, ledger: int, entry: int, consumer: int) -> int:
    """Begins a finding whose other fields are unknown; returns its row."""
    row = out.filled[FINDINGS]
    out.filled[FINDINGS] = row + 1
    found = out.findings
    found[row] = NOTHING_KNOWN[0]
    found[row].rule = rule
    found[row].seq = seq
    found[row].ts_us = ts_us
    found[row].ledger = ledger
    found[row].entry = entry
    found[row].consumer = consumer
    return int(row)


@compiled
def report(state: Seen, out: Output, rule: int, slot: int, sent: Dispatch) -> int:
    """Writes the finding that a dispatch broke a rule; returns its row, to which the rule may add values."""
    row = _new_row(out, rule, sent.seq, sent.ts_us, sent.ledger, sent.entry, sent.consumer)
    found, of_hash, of_entry = out.findings, state.hashes[sent.hash_at], state.entries[slot]
    found[row].hash = of_hash.hash
    found[row].key_id = sent.key_id
    found[row].draining = of_hash.away
    found[row].marks = of_entry.marks
    found[row].since_seq = of_entry.since.seq
    found[row].since_ts = of_entry.since.ts_us
    if of_hash.waiting > 0:
        found[row].hash_since_seq = of_hash.waiting_since.seq
        found[row].hash_since_ts = of_hash.waiting_since.ts_us
    found[row].sent_before_to = of_entry.sent_to
    found[row].sent_before_seq = of_entry.sent_at.seq
    if of_entry.marks & Mark.READ != 0:
        found[row].read_ts = of_entry.read_ts
    common = state.common
    found[row].reported_read = position_of(sent) < position_of(common[0].reported_read)
    found[row].left_sent_seq = of_hash.left_sent_seq
    return row


@compiled
def report_against(state: SeenByRules, out: Output, rule: int, slot: int, sent: Dispatch, other: int) -> int:
    """Writes the finding that a dispatch broke a rule because of another entry; returns its row."""
    row = report(state, out, rule, slot, sent)
    found, entries = out.findings, state.entries
    state.checks.evidence_seq[other] = sent.seq
    found[row].other_consumer = entries[other].sent_to
    found[row].other_seq = entries[other].sent_at.seq
    found[row].other_ledger = entries[other].ledger
    found[row].other_entry = entries[other].entry
    found[row].other_key_id = entries[other].key_id
    found[row].other_marks = entries[other].marks
    found[row].other_since_seq = entries[other].since.seq
    found[row].other_since_ts = entries[other].since.ts_us
    found[row].other_ts = entries[other].sent_at.ts_us
    found[row].other_due_ts = entries[other].due.ts_us
    return row


@compiled
def report_row(state: Seen, out: Output, rule: int, events: Events, i: int, consumer: int, slot: int) -> int:
    """Writes a finding that a single row of the trace shows, of the entry in `slot`; -1: of none. Returns its row."""
    row = _new_row(out, rule, events.seq[i], events.ts_us[i], events.ledger[i], events.entry[i], consumer)
    if slot >= 0:
        out.findings[row].hash = state.hashes[state.entries[slot].hash_at].hash
        out.findings[row].key_id = state.entries[slot].key_id
    return row
