"""Finds what the entries of a hash wait for while no other consumer holds the hash and its owner is available.

The cause is determined whenever the hash is served or moves. As long as it stays the same, and entries wait, there is
one interval, however many entries are sent meanwhile. Pauses up to `report_min_us` in which no entry waits do not end
it. It does not count the times in which the owner is unavailable: the interval of the owner does
(`consumer_availability`).
"""

from typing import Final

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import unavailable_us, unserved_us
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import Output, new_interval
from dispatch_audit.pipeline.replay.state.records import NOBODY, ran_us, run_while, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByBlocking
from dispatch_audit.pipeline.replay.state.values import (
    BY_SNAPSHOTS,
    UNLOOKED,
    Cause,
    Mark,
    is_due,
    is_overdue,
    is_tracked,
)

# Of the look-ahead limit: rows do not show the last read if all its entries went to replay (4.2, step 9c).
_NEAR_LIMIT: Final = 0.95


@compiled
def note_limits(state: SeenByBlocking, ts: int) -> None:
    """Adds up the time for which the limits of the subscription are reached; called with every row."""
    common, waits = state.common, state.waits.common
    limit = common[0].look_ahead_limit
    run_while(waits[0].look_ahead, limit > 0 and common[0].in_replay >= _NEAR_LIMIT * limit, ts)
    is_blocked = common[0].unacked_limit > 0 and common[0].blocked_on_unacked == 1
    run_while(waits[0].blocked_on_unacked, is_blocked, ts)
    if is_blocked:
        waits[0].blocked_on_unacked_until_ts = ts


@compiled
def begin_wait(state: SeenByBlocking, at: int, point: TracePoint) -> None:
    """Notes that the hash could be served from here on."""
    hashes, waits = state.hashes, state.waits.hashes
    set_point(waits[at].clear, point)
    waits[at].clear_idle_us = hashes[at].idle_us
    owner = hashes[at].owner
    waits[at].clear_look_ahead_us = ran_us(state.waits.common[0].look_ahead, point.ts_us)
    waits[at].clear_full_us = ran_us(state.waits.common[0].blocked_on_unacked, point.ts_us)
    waits[at].clear_unavailable_us = unavailable_us(state, owner, point.ts_us)
    waits[at].clear_unserved_us = unserved_us(state, owner, point.ts_us)


@compiled
def note_free(state: SeenByBlocking, at: int, point: TracePoint) -> None:
    """Notes that no other consumer holds the hash from here on."""
    begin_wait(state, at, point)
    state.waits.hashes[at].free_ts = point.ts_us


@compiled
def note_move(state: SeenByBlocking, at: int, ts: int) -> None:
    """Notes until when the owner of a hash, which loses it, held it up, unless it had it for too short a time.

    The intervals of consumers that can be sent nothing have ended by then.
    """
    owner, waits, until_ts = state.hashes[at].owner, state.waits, ts
    waits.hashes[at].owned_ts = ts
    if owner != UNLOOKED and ts - waits.hashes[at].clear.ts_us < READ_AND_PAUSE_US:
        return
    if owner >= 0 and state.consumers[owner].blocked == 0 and waits.consumers[owner].recent == 0:
        until_ts = max(waits.consumers[owner].cause_since.ts_us, state.consumers[owner].unblocked_ts)
    waits.hashes[at].free_ts = max(waits.hashes[at].free_ts, until_ts)


@compiled
def may_go_on(state: Seen, at: int, ts: int, report_min_us: int) -> bool:
    """Whether a wait that begins at a time, or later, may belong to the open interval of a hash."""
    return bool(state.waits.hashes[at].why != Cause.READY and ts - state.waits.hashes[at].why_to.ts_us <= report_min_us)


@compiled
def explain(state: SeenByBlocking, out: Output, at: int, point: TracePoint, ended_by: int, report_min_us: int) -> None:
    """Determines why a hash waited; called when it is served or moves.

    A change of the cause ends an interval, and so does a time of `report_min_us` in which nothing waited.
    """
    hashes, waits = state.hashes, state.waits.hashes
    waited_us = point.ts_us - waits[at].clear.ts_us
    cause = Cause.READY
    if hashes[at].waiting > 0 and hashes[at].away == 0 and waited_us >= report_min_us:
        owner = hashes[at].owner
        if owner >= 0:
            waited_us -= unavailable_us(state, owner, point.ts_us) - waits[at].clear_unavailable_us
        if waited_us >= report_min_us:
            cause = _cause(state, at, waited_us, point.ts_us)
    if cause != waits[at].why or (
        cause != Cause.READY and not may_go_on(state, at, waits[at].clear.ts_us, report_min_us)
    ):
        end_wait(state, out, at)
        waits[at].why = cause
        waits[at].why_since = waits[at].clear
        waits[at].why_us = 0
        waits[at].why_entries = 0
        waits[at].why_ready_before = hashes[at].became_ready - hashes[at].ready
        head = _head(state, at, point.ts_us - waited_us // 2)
        set_position(waits[at].why_first, state.entries[head])
    if cause != Cause.READY:
        waits[at].why_us += hashes[at].idle_us - waits[at].clear_idle_us
        waited = (
            hashes[at].waiting
            if cause == Cause.DELAYED_DELIVERY
            else hashes[at].became_ready - waits[at].why_ready_before
        )
        waits[at].why_entries = max(waits[at].why_entries, waited)
        set_point(waits[at].why_to, point)
        waits[at].why_ended_by = ended_by


@compiled
def _head(state: Seen, at: int, since_ts: int) -> int:
    """The slot of the first waiting entry that could be sent, or of one that is delayed if there is no other.

    Entries that have waited since `since_ts` or longer come first: those that were given back or delayed may be
    overtaken.
    """
    hashes, entries = state.hashes, state.entries
    first = hashes[at].queue.first
    if first >= 0 and entries[first].since.ts_us <= since_ts:
        return int(first)
    recent = first
    slot = hashes[at].aside.first
    while hashes[at].ready > 0 and slot >= 0:
        if is_due(entries[slot].marks):
            if _ready_ts(state, slot) <= since_ts:
                return int(slot)
            if recent < 0:
                recent = slot
        slot = entries[slot].next
    return int(recent if recent >= 0 else hashes[at].aside.first)


@compiled
def _cause(state: Seen, at: int, waited_us: int, ts: int) -> Cause:
    """The cause of at least half of the head's wait, which excludes the time in which the owner was unavailable."""
    hashes, waits = state.hashes, state.waits.hashes
    half_us = waited_us // 2
    owner, head = hashes[at].owner, _head(state, at, ts - half_us)
    marks = state.entries[head].marks
    cause = Cause.NOT_READ_YET
    if owner == NOBODY:
        cause = Cause.NO_OWNER
    elif hashes[at].ready == 0:
        cause = Cause.DELAYED_DELIVERY
    elif marks & Mark.NACKED != 0:
        cause = Cause.NACK_DELAY
    elif _delayed_us(state, at, head, ts, waited_us) > half_us:
        cause = Cause.DELAYED_DELIVERY
    elif owner != UNLOOKED and state.waits.consumers[owner].recent == 1:
        cause = Cause.RECENTLY_JOINED
    elif owner >= 0 and state.consumers[owner].blocked == 1:
        cause = Cause.UNACKED_LIMIT_CONSUMER
    elif owner >= 0 and _was_short(state, owner, ts - half_us):
        cause = Cause.NO_PERMITS
    elif is_overdue(marks):
        cause = Cause.OVERDUE
    elif marks & Mark.READ != 0 and ts - state.entries[head].read_ts >= half_us:
        cause = Cause.REPLAY_QUEUE
    elif ran_us(state.waits.common[0].look_ahead, ts) - waits[at].clear_look_ahead_us >= half_us:
        cause = Cause.LOOK_AHEAD_LIMIT
    elif ran_us(state.waits.common[0].blocked_on_unacked, ts) - waits[at].clear_full_us >= half_us:
        cause = Cause.UNACKED_LIMIT_SUBSCRIPTION
    return cause


@compiled
def _was_short(state: Seen, owner: int, since_ts: int) -> bool:
    """Whether every snapshot since a time shows that a consumer can be sent nothing, and no row shows its permits."""
    short_since_ts = state.waits.consumers[owner].short_since_ts
    return bool(state.common[0].permits_known_by == BY_SNAPSHOTS and 0 < short_since_ts <= since_ts)


@compiled
def _delayed_us(state: Seen, at: int, head: int, ts: int, waited_us: int) -> int:
    """The part of a wait, in microseconds, in which only entries waited that were not due."""
    entries, delayed = state.entries, False
    ready_us = ts - _ready_ts(state, head)
    slot = state.hashes[at].aside.first
    while slot >= 0:
        if is_overdue(entries[slot].marks):
            ready_us = max(ready_us, ts - entries[slot].due.ts_us)
        delayed = delayed or is_tracked(entries[slot].marks)
        slot = entries[slot].next
    return max(waited_us - ready_us, 0) if delayed else 0


@compiled
def _ready_ts(state: Seen, slot: int) -> int:
    """Since when an entry waits and could be sent, as far as its delay is concerned."""
    due = is_overdue(state.entries[slot].marks)
    return int(state.entries[slot].due.ts_us if due else state.entries[slot].since.ts_us)


@compiled
def end_wait(state: SeenByBlocking, out: Output, at: int) -> None:
    """Reports the open interval of a hash, if there is one; it ended when `explain` was last called."""
    hashes, waits = state.hashes, state.waits.hashes
    if waits[at].why == Cause.READY:
        return
    row = new_interval(
        out,
        waits[at].why,
        hashes[at].owner,
        hashes[at].hash,
        waits[at].why_since,
        waits[at].why_to,
        waits[at].why_ended_by,
    )
    report = out.intervals
    report[row].waiting = waits[at].why_entries
    report[row].waited_us = waits[at].why_us
    set_position(report[row], waits[at].why_first)
    waits[at].why = Cause.READY
