"""The rules that one dispatch can break (DESIGN, "Rules"; SEMANTICS 9.2), asked before it takes effect.

A recorded event is an interval, and a finding must hold at every moment of it (TRACE_FORMAT, "Phases"). So another
consumer counts as holder only while it does so for certain: from the decision to dispatch, until the first sign of
an acknowledgement, a redelivery or a departure; and whatever rests on a dispatch that never reached its connection
is dropped at the end (`Output.unsent`).

What the rules cannot see: what a client does with a message it has; dispatches that the recorder lost.
"""

from typing import NamedTuple

from pipeline.replay.compiled import compiled
from pipeline.replay.output import (
    EARLY_DUPLICATE,
    FINDINGS,
    FIRST_DELIVERY_ORDER,
    OWNERSHIP,
    SINGLE_HOLDER,
    Output,
)
from pipeline.replay.state import (
    ACKED,
    CITED,
    DELAYED,
    DISPATCHES,
    DONE,
    DOUBTFUL,
    FIRST_DELIVERIES,
    GIVEN_BACK,
    NOBODY,
    RESETTING,
    SENT,
    UNKNOWN,
    State,
)


class Dispatch(NamedTuple):
    """One decision of the dispatcher: an entry of a hash goes to a consumer, which may or may not own the hash."""

    seq: int
    ts_us: int
    ledger: int
    entry: int
    hash_at: int
    key_id: int
    consumer: int
    owner: int


@compiled
def _report(state: State, out: Output, rule: int, sent: Dispatch) -> int:
    row = out.filled[FINDINGS]
    out.filled[FINDINGS] = row + 1
    found, hashes = out.findings, state.hashes
    found.rule[row] = rule
    found.seq[row] = sent.seq
    found.ts_us[row] = sent.ts_us
    found.ledger[row] = sent.ledger
    found.entry[row] = sent.entry
    found.hash[row] = hashes.hash[sent.hash_at]
    found.key_id[row] = sent.key_id
    found.consumer[row] = sent.consumer
    found.other_consumer[row] = NOBODY
    found.other_seq[row] = UNKNOWN
    found.other_ledger[row] = UNKNOWN
    found.other_entry[row] = UNKNOWN
    found.other_key_id[row] = UNKNOWN
    found.draining[row] = hashes.away[sent.hash_at]
    return int(row)


@compiled
def _report_against(state: State, out: Output, rule: int, sent: Dispatch, other: int) -> None:
    row = _report(state, out, rule, sent)
    found, entries = out.findings, state.entries
    entries.marks[other] |= CITED
    found.other_consumer[row] = entries.sent_to[other]
    found.other_seq[row] = entries.sent_seq[other]
    found.other_ledger[row] = entries.ledger[other]
    found.other_entry[row] = entries.entry[other]
    found.other_key_id[row] = entries.key_id[other]


@compiled
def _certainly_held(state: State, slot: int, before_us: int) -> bool:
    entries = state.entries
    holder = entries.holder[slot]
    return bool(
        holder >= 0
        and state.consumers.leaving[holder] == 0
        and entries.marks[slot] & DOUBTFUL == 0
        and entries.sent_ts[slot] <= before_us
    )


@compiled
def _foreign_holding(state: State, sent: Dispatch, before_us: int) -> int:
    """An entry of the hash that another consumer holds for certain, rather one seen to have left; -1: none."""
    hashes, entries = state.hashes, state.entries
    at = sent.hash_at
    if hashes.held_elsewhere[at] == 0:
        holder = hashes.holder[at]
        if hashes.held[at] == 0 or holder == sent.consumer or state.consumers.leaving[holder] == 1:
            return NOBODY
    found = NOBODY
    slot = hashes.first[at]
    while slot >= 0:
        if entries.holder[slot] != sent.consumer and _certainly_held(state, slot, before_us):
            if entries.marks[slot] & DONE != 0:
                return int(slot)
            if found < 0:
                found = slot
        slot = entries.next[slot]
    return found


@compiled
def check_dispatch(
    state: State, out: Output, slot: int, sent: Dispatch, unordered_us: int, keeps_order: bool
) -> None:
    """Holds one dispatch against the rules.

    Args:
        state: the state before the dispatch takes effect.
        out: where findings go.
        slot: the entry; its hash is known.
        sent: the dispatch.
        unordered_us: two dispatches recorded closer than this may have been decided in the other order; 0 where
            the decision itself is recorded.
        keeps_order: False where the subscription promises no order of a hash across consumers.
    """
    entries, hashes = state.entries, state.hashes
    before_us = sent.ts_us - unordered_us
    state.checked[DISPATCHES] += 1
    if sent.owner != sent.consumer:
        row = _report(state, out, OWNERSHIP, sent)
        out.findings.other_consumer[row] = sent.owner
    other = _foreign_holding(state, sent, before_us)
    if other >= 0:
        _report_against(state, out, SINGLE_HOLDER, sent, other)
    marks = entries.marks[slot]
    if _certainly_held(state, slot, before_us):
        _report_against(state, out, EARLY_DUPLICATE, sent, slot)
    elif entries.holder[slot] < 0 and marks & ACKED != 0 and marks & GIVEN_BACK == 0:
        _report_against(state, out, EARLY_DUPLICATE, sent, slot)
    if marks & (SENT | DELAYED) != 0 or not keeps_order or state.cells[RESETTING] == 1:
        return
    state.checked[FIRST_DELIVERIES] += 1
    at = sent.hash_at
    top = (hashes.top_ledger[at], hashes.top_entry[at])
    if (sent.ledger, sent.entry) > top:
        hashes.top_ledger[at] = sent.ledger
        hashes.top_entry[at] = sent.entry
        hashes.top_seq[at] = sent.seq
        hashes.top_ts[at] = sent.ts_us
        hashes.top_consumer[at] = sent.consumer
        hashes.top_key_id[at] = sent.key_id
    elif hashes.top_ts[at] <= before_us:
        row = _report(state, out, FIRST_DELIVERY_ORDER, sent)
        out.findings.other_consumer[row] = hashes.top_consumer[at]
        out.findings.other_seq[row] = hashes.top_seq[at]
        out.findings.other_ledger[row] = hashes.top_ledger[at]
        out.findings.other_entry[row] = hashes.top_entry[at]
        out.findings.other_key_id[row] = hashes.top_key_id[at]
