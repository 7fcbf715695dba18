"""What keeps entries waiting that no other consumer holds back: consumers that can take nothing, hashes passed over.

The core only notices that something is over, or that nothing at all was sent for too long, and stops; who had to
wait meanwhile is counted then, by `attribution`, while the state still shows it.
"""

from typing import Final

from pipeline.replay.blocking.causes import NO_PERMITS, READY, UNACKED_LIMIT_CONSUMER
from pipeline.replay.packing.events import Events
from pipeline.replay.state.compiled import compiled
from pipeline.replay.state.output import INTERVALS, Output
from pipeline.replay.state.policy import Policy
from pipeline.replay.state.state import (
    BY_FLOWS,
    UNKNOWN,
    State,
)

# The interval is one in which a hash could be served and was not: no cause of waiting, but a finding.
STARVED: Final = -1

# Why the core stops in front of a row (`stop_reason`).
INTERVAL_OVER: Final = 1  # a hindrance is over
STALLED: Final = 2  # nothing was sent to anybody for long, until this row
SAMPLE: Final = 3  # it is time to look
RELEASED: Final = 4  # mark-delete has reached what a recently joined consumer waits for


@compiled
def update_availability(
    state: State, out: Output, consumer: int, seq: int, ts: int, ended_by: int, unacked_max: int, report_min_us: int
) -> None:
    """Asked after everything that changes what a consumer may be sent.

    Args:
        state: the state.
        out: where an interval goes that is over.
        consumer: its place.
        seq: of the row that changed it.
        ts: of the row, microseconds.
        ended_by: how that is called.
        unacked_max: messages that it may hold; 0: no limit.
        report_min_us: shorter intervals are not reported.
    """
    consumers = state.consumers
    cause = READY
    if unacked_max > 0:
        if consumers[consumer].unacked >= unacked_max:
            consumers[consumer].blocked = 1
        elif consumers[consumer].blocked == 1 and consumers[consumer].unacked <= unacked_max // 2:
            unblock(state, consumer, ts)
    by_flows = state.common[0].permits_known_by == BY_FLOWS
    withheld = consumers[consumer].blocked == 1 and by_flows and consumers[consumer].permits <= 0
    if withheld or (unacked_max > 0 and consumers[consumer].unacked >= unacked_max):
        cause = UNACKED_LIMIT_CONSUMER
    elif state.common[0].permits_known_by != 0 and consumers[consumer].permits <= 0:
        cause = NO_PERMITS
    if cause == consumers[consumer].cause:
        return
    consumers[consumer].former = consumers[consumer].cause
    end_unavailability(state, out, consumer, seq, ts, ended_by, report_min_us)
    consumers[consumer].cause = cause
    consumers[consumer].cause_seq = seq
    consumers[consumer].cause_ts = ts


@compiled
def update_availability_by_row(
    state: State, out: Output, events: Events, i: int, consumer: int, ended_by: int, policy: Policy
) -> None:
    """`update_availability`, asked after a row of the trace."""
    seq, ts = events.seq[i], events.ts_us[i]
    update_availability(state, out, consumer, seq, ts, ended_by, policy.unacked_max, policy.report_min_us)


@compiled
def unblock(state: State, consumer: int, ts: int) -> None:
    """What the consumer asked for while it had too much unacknowledged counts from now on (4.14)."""
    consumers = state.consumers
    if consumers[consumer].blocked == 1:
        consumers[consumer].unblocked_ts = ts
    consumers[consumer].blocked = 0
    consumers[consumer].permits += consumers[consumer].withheld
    consumers[consumer].withheld = 0


@compiled
def grant(state: State, consumer: int, permits: int) -> None:
    """A consumer asks for so many messages more."""
    state.common[0].permits_known_by = BY_FLOWS
    if state.consumers[consumer].blocked == 1:
        state.consumers[consumer].withheld += permits
    else:
        state.consumers[consumer].permits += permits


@compiled
def end_unavailability(
    state: State, out: Output, consumer: int, seq: int, ts: int, ended_by: int, report_min_us: int
) -> None:
    """Whatever kept a consumer from being sent anything is over."""
    consumers = state.consumers
    cause = consumers[consumer].cause
    consumers[consumer].cause = READY
    if cause != READY:
        consumers[consumer].unavailable_us += ts - consumers[consumer].cause_ts
    if cause == READY or ts - consumers[consumer].cause_ts < report_min_us:
        return
    row = out.filled[INTERVALS]
    out.filled[INTERVALS] = row + 1
    report = out.intervals
    report[row].cause = cause
    report[row].consumer = consumer
    report[row].hash = UNKNOWN
    report[row].from_seq = consumers[consumer].cause_seq
    report[row].from_ts = consumers[consumer].cause_ts
    report[row].to_seq = seq
    report[row].to_ts = ts
    report[row].ended_by = ended_by
    state.common[0].stop_reason = INTERVAL_OVER


@compiled
def unavailable_us(state: State, consumer: int, ts: int) -> int:
    """For how long a consumer could be sent nothing, all its life."""
    consumers = state.consumers
    open_us = ts - consumers[consumer].cause_ts if consumers[consumer].cause != READY else 0
    return int(consumers[consumer].unavailable_us + open_us)


@compiled
def note_starved(state: State, out: Output, at: int, seq: int, ts: int, ended_by: int, longest_us: int) -> None:
    """A hash is served, or changes hands: was it passed over before, although nothing stood in its way?"""
    hashes = state.hashes
    owner = hashes[at].owner
    # An owner that could be sent nothing did not pass it over.
    hindered = unavailable_us(state, owner, ts) - hashes[at].clear_unavailable_us if owner >= 0 else 0
    # What waits aside may be overtaken.
    if hashes[at].queue_first >= 0 and hashes[at].away == 0 and ts - hashes[at].clear_ts - hindered >= longest_us:
        row = out.filled[INTERVALS]
        out.filled[INTERVALS] = row + 1
        report, head = out.intervals, hashes[at].queue_first
        report[row].cause = STARVED
        report[row].consumer = owner
        report[row].hash = hashes[at].hash
        report[row].from_seq = hashes[at].clear_seq
        report[row].from_ts = hashes[at].clear_ts
        report[row].to_seq = seq
        report[row].to_ts = ts
        report[row].ended_by = ended_by
        report[row].registered = hashes[at].registered
        report[row].drained_from = hashes[at].drained_from
        report[row].waiting = hashes[at].waiting
        report[row].unavailable_us = hindered
        report[row].ledger = state.entries[head].ledger
        report[row].entry = state.entries[head].entry
        report[row].passed_ts = UNKNOWN
        if owner >= 0:
            report[row].passed_ledger = state.consumers[owner].sent_ledger
            report[row].passed_entry = state.consumers[owner].sent_entry
            report[row].passed_ts = state.consumers[owner].sent_ts


@compiled
def stalls(state: State, seq: int, ts: int, longest_us: int) -> bool:
    """Whether nothing was sent to anybody for long before the dispatch `seq`; says so once."""
    common = state.common
    if common[0].waiting == 0 or common[0].stopped_at_seq == seq:
        return False
    if ts - max(common[0].last_dispatch_ts, common[0].waiting_since_ts) < longest_us:
        return False
    common[0].stopped_at_seq = seq
    common[0].stop_reason = STALLED
    return True
