"""Intervals in which a consumer could be sent nothing, and hashes that starved.

The kernel only notices that such an interval ends, and stops there. While the state still shows which entries waited,
`attribution` counts them.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.durations import blocked_on_unacked_us, look_ahead_us, unserved_us
from dispatch_audit.pipeline.replay.blocking.half_full import blocked_until_ts, note_half_full_consumer
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import INTERVAL_OVER, INTERVALS, Output, new_interval
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking
from dispatch_audit.pipeline.replay.state.state import BY_FLOWS, common_of

# The hash could be served in the interval and was not: not a cause of waiting, but a finding.
STARVED: Final = -1

_IN_FLIGHT_US: Final = 100_000


@compiled
def update_availability(
    state: SeenByBlocking, out: Output, consumer: int, point: TracePoint, ended_by: int, report_min_us: int
) -> None:
    """Updates the cause for which a consumer can be sent nothing; see `flow_control.note_capacity`."""
    consumers, waits = state.consumers, state.waits.consumers
    cause, blocks_at = Cause.READY, state.common[0].blocks_at
    note_half_full_consumer(state, consumer, point.ts_us)
    by_flows = state.common[0].permits_known_by == BY_FLOWS
    withheld = consumers[consumer].blocked == 1 and by_flows and consumers[consumer].permits <= 0
    if withheld or (blocks_at > 0 and consumers[consumer].unacked + waits[consumer].counts_more >= blocks_at):
        cause = Cause.UNACKED_LIMIT_CONSUMER
    elif state.common[0].permits_known_by != 0 and consumers[consumer].permits <= 0:
        cause = Cause.NO_PERMITS
    if cause != waits[consumer].cause:
        former = waits[consumer].cause
        end_unavailability(state, out, consumer, point, ended_by, report_min_us)
        waits[consumer].former = former
        waits[consumer].cause = cause
        waits[consumer].cause_seq = point.seq
        waits[consumer].cause_ts = point.ts_us
    _note_unserved(state, consumer, point.ts_us)


def note_reported(state: SeenByBlocking, unacked: Mapping[int, int], point: TracePoint) -> None:
    """Takes from a snapshot who is at the limit because the broker counts what was skipped or sent twice (E6, F10).

    `unacked` has the messages that the broker counts for each consumer, by its index.
    """
    consumers, waits = state.consumers.view(np.ndarray), state.waits.consumers.view(np.ndarray)
    blocks_at = int(common_of(state)["blocks_at"])
    for consumer, counted in unacked.items():
        seen, wait = consumers[consumer], waits[consumer]
        # Rows of what has just happened may come before the snapshot, although it was taken earlier.
        if max(seen["sent_ts"], seen["gave_up_ts"]) > point.ts_us - _IN_FLIGHT_US:
            continue
        wait["counts_more"] = min(max(counted - seen["unacked"], 0), seen["uncounted"])
        if 0 < blocks_at <= seen["unacked"] + wait["counts_more"] and wait["cause"] == Cause.READY:
            wait["former"], wait["cause"] = Cause.READY, Cause.UNACKED_LIMIT_CONSUMER
            wait["cause_seq"], wait["cause_ts"] = point
            wait["unserved_since_ts"] = wait["unserved_since_ts"] or point.ts_us


def may_be_unwritable(state: Seen, since_seq: int) -> NDArray[np.bool_]:
    """Which consumers may have connections that take nothing: none of what they hold was acknowledged since a row."""
    consumers: Any = state.consumers.view(np.ndarray)
    unwritable: NDArray[np.bool_] = (consumers["held"] > 0) & (consumers["gave_up_seq"] <= since_seq)
    return unwritable


@compiled
def _note_unserved(state: SeenByBlocking, consumer: int, ts: int) -> None:
    """Adds up the time for which the broker does not read for a consumer."""
    waits = state.waits.consumers
    if waits[consumer].cause != Cause.READY or state.consumers[consumer].blocked == 1:
        if waits[consumer].unserved_since_ts == 0:
            waits[consumer].unserved_since_ts = ts
    elif waits[consumer].unserved_since_ts > 0:
        waits[consumer].unserved_us += ts - waits[consumer].unserved_since_ts
        waits[consumer].unserved_since_ts = 0


@compiled
def end_unavailability(
    state: SeenByBlocking, out: Output, consumer: int, point: TracePoint, ended_by: int, report_min_us: int
) -> None:
    """Ends the interval in which a consumer could be sent nothing, if there is one, and reports it."""
    waits = state.waits.consumers
    cause, since = waits[consumer].cause, TracePoint(waits[consumer].cause_seq, waits[consumer].cause_ts)
    if cause == Cause.READY:
        return
    waits[consumer].former, waits[consumer].cause = cause, Cause.READY
    waits[consumer].cause_seq, waits[consumer].cause_ts = point.seq, point.ts_us
    waits[consumer].unavailable_us += point.ts_us - since.ts_us
    if point.ts_us - since.ts_us < report_min_us:
        return
    new_interval(out, cause, consumer, UNKNOWN, since, point, ended_by)
    out.stop[0] = INTERVAL_OVER


@compiled
def note_starved(state: Seen, out: Output, at: int, point: TracePoint, ended_by: int, longest_us: int) -> None:
    """Reports a hash as starved if it could have been served for `longest_us`; called when it is served or moves."""
    hashes, waits = state.hashes, state.waits.hashes
    owner = hashes[at].owner
    head = hashes[at].queue_first
    # Only entries that may not be overtaken (`queue_first`) count, and only while nobody but the owner holds others:
    # who was sent one, although it was not the owner as far as rows show, may have been it, and the hash drains.
    held_by_others = hashes[at].held_elsewhere > 0 or (hashes[at].held > 0 and hashes[at].holder != owner)
    if head < 0 or hashes[at].away == 1 or held_by_others:
        return
    from_seq, from_ts, before_us = waits[at].clear_seq, waits[at].clear_ts, waits[at].clear_unserved_us
    if waits[at].read_ts > from_ts and _may_be_unread(state, at, point.ts_us):
        from_seq, from_ts, before_us = waits[at].read_seq, waits[at].read_ts, waits[at].read_unserved_us
    if state.entries[head].since_ts > from_ts:
        # It came back, and is before those that have waited longer.
        from_seq, from_ts = state.entries[head].since_seq, state.entries[head].since_ts
    # The hash does not starve while the broker does not read for its owner.
    unavailable = unserved_us(state, owner, point.ts_us) - before_us if owner >= 0 else 0
    if point.ts_us - from_ts - unavailable >= longest_us:
        since = TracePoint(from_seq, from_ts)
        report_starved(state, out, at, head, since, point, ended_by, unavailable)
        _note_passed_by_others(state, out, at, from_ts, unavailable, longest_us)


@compiled
def report_starved(
    state: Seen,
    out: Output,
    at: int,
    head: int,
    since: TracePoint,
    point: TracePoint,
    ended_by: int,
    unavailable: int,
) -> None:
    """Reports that an entry of the hash at `at`, and those after it, could be sent between two points and were not.

    For `unavailable` microseconds of that time the owner could be sent nothing.
    """
    hashes, owner = state.hashes, state.hashes[at].owner
    row, report = new_interval(out, STARVED, owner, hashes[at].hash, since, point, ended_by), out.intervals
    report[row].registered = hashes[at].registered
    report[row].drained_from = hashes[at].drained_from
    report[row].waiting = hashes[at].waiting
    report[row].unavailable_us = unavailable
    report[row].ledger = state.entries[head].ledger
    report[row].entry = state.entries[head].entry
    report[row].passed_ts = UNKNOWN
    report[row].passed_by = owner
    report[row].blocked_until_ts = blocked_until_ts(state, owner, point.ts_us)
    if owner >= 0:
        report[row].passed_ledger = state.consumers[owner].sent_ledger
        report[row].passed_entry = state.consumers[owner].sent_entry
        report[row].passed_ts = state.consumers[owner].sent_ts


@compiled
def _note_passed_by_others(state: Seen, out: Output, at: int, from_ts: int, unavailable: int, longest_us: int) -> None:
    """Adds to the report of a starved hash the later entry that another consumer was sent, if its owner was sent none.

    A broker that sends later entries to others has read the first entry of the hash, and looks at it at each read. It
    may pass over it while its owner has no permits; only flow rows show that it has some all the time. While its owner
    is sent anything, its turn may not have come.
    """
    entries, common, head = state.entries, state.common, state.hashes[at].queue_first
    owner = state.hashes[at].owner
    if owner < 0 or common[0].permits_known_by != BY_FLOWS or entries[head].marks & Mark.READ == 0:
        return
    passed_from = max(from_ts, entries[head].read_ts, state.consumers[owner].sent_ts) + unavailable + longest_us
    if common[0].last_dispatch_ts < passed_from:
        return
    latest = NOBODY
    for slot in range(entries.size):
        if entries[slot].ledger < 0 or entries[slot].marks & Mark.SENT == 0 or entries[slot].sent_ts < passed_from:
            continue
        later = (entries[slot].ledger, entries[slot].entry) > (entries[head].ledger, entries[head].entry)
        if later and (latest == NOBODY or entries[slot].sent_ts > entries[latest].sent_ts):
            latest = slot
    if latest != NOBODY:
        row = out.filled[INTERVALS] - 1
        report = out.intervals
        report[row].passed_ledger = entries[latest].ledger
        report[row].passed_entry = entries[latest].entry
        report[row].passed_ts = entries[latest].sent_ts
        report[row].passed_by = entries[latest].sent_to


@compiled
def _may_be_unread(state: Seen, at: int, ts: int) -> bool:
    """Whether the broker had reason not to read the first entry of a hash at once (V10).

    It reads in order, and nothing while the look-ahead limit or that of unacknowledged messages is reached (4.2).
    """
    waits = state.waits.hashes
    limited_us = look_ahead_us(state, ts) - waits[at].clear_look_ahead_us
    limited_us += blocked_on_unacked_us(state, ts) - waits[at].clear_full_us
    return bool(limited_us > 0 or state.entries[state.hashes[at].queue_first].marks & Mark.IN_BACKLOG != 0)


@compiled
def is_released(state: Seen) -> bool:
    """Whether mark-delete has reached the position that a recently joined consumer waits for."""
    common, waits = state.common, state.waits.common
    return bool(
        waits[0].join_release_ledger != UNKNOWN
        and (common[0].mark_delete_ledger, common[0].mark_delete_entry + 1)
        >= (waits[0].join_release_ledger, waits[0].join_release_entry)
    )


@compiled
def mark_delete_is_guessed(state: Seen) -> bool:
    """Whether mark-delete is no more than a guess, which may be too high.

    After a reset the first publish or dispatch says where it is, until a snapshot shows it.
    """
    common = state.common
    return bool(common[0].unseen_until_ts != UNKNOWN and common[0].shown_ts <= common[0].unseen_until_ts)


@compiled
def note_head_read(state: SeenByBlocking, at: int, point: TracePoint) -> None:
    """Notes that the broker has read the first waiting entry of a hash."""
    waits = state.waits.hashes
    waits[at].read_seq = point.seq
    waits[at].read_ts = point.ts_us
    waits[at].read_unserved_us = unserved_us(state, state.hashes[at].owner, point.ts_us)


@compiled
def begin_hash(state: SeenByBlocking, at: int) -> None:
    """Begins the memory of a hash that gets a slot."""
    state.waits.hashes[at].why = Cause.READY
    state.waits.hashes[at].read_ts = UNKNOWN
