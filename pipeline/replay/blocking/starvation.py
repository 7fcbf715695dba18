"""Finds hashes that could be served and are passed over: their owners, or others, are sent later entries (V10, V11)."""

from typing import Final

from dispatch_audit.pipeline.replay.blocking.consumer_availability import blocked_until_ts, unserved_us
from dispatch_audit.pipeline.replay.blocking.wait_causes import blocked_on_unacked_us, look_ahead_us
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import INTERVALS, Output, new_interval
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, position_of, set_position
from dispatch_audit.pipeline.replay.state.state import Seen
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, Mark

# The hash could be served in the interval and was not: not a cause of waiting, but a finding.
STARVED: Final = -1


@compiled
def note_starved(state: Seen, out: Output, at: int, point: TracePoint, ended_by: int, longest_us: int) -> None:
    """Reports a hash as starved if it could have been served for `longest_us`; called when it is served or moves."""
    hashes, waits = state.hashes, state.waits.hashes
    owner = hashes[at].owner
    head = hashes[at].queue.first
    # Only entries that may not be overtaken (`queue.first`) count, and only while nobody but the owner holds others:
    # another holder may have been the owner although no row shows it, and then the hash drains.
    held_by_others = hashes[at].held_elsewhere > 0 or (hashes[at].held > 0 and hashes[at].holder != owner)
    if head < 0 or hashes[at].away == 1 or held_by_others:
        return
    from_seq, from_ts, before_us = waits[at].clear.seq, waits[at].clear.ts_us, waits[at].clear_unserved_us
    if waits[at].read.ts_us > from_ts and _may_be_unread(state, at, point.ts_us):
        from_seq, from_ts, before_us = waits[at].read.seq, waits[at].read.ts_us, waits[at].read_unserved_us
    if state.entries[head].since.ts_us > from_ts:
        # The entry came back, and precedes those that have waited longer.
        from_seq, from_ts = state.entries[head].since.seq, state.entries[head].since.ts_us
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
    set_position(report[row], state.entries[head])
    report[row].passed_ts = UNKNOWN
    report[row].passed_by = owner
    report[row].blocked_until_ts = blocked_until_ts(state, owner, point.ts_us)
    if owner >= 0:
        of = state.consumers[owner]
        report[row].holds = 1 if of.unacked + of.uncounted > 0 or of.gave_up_at.ts_us > since.ts_us else 0
        report[row].passed_ledger = of.sent.ledger
        report[row].passed_entry = of.sent.entry
        report[row].passed_ts = of.sent_ts


@compiled
def _note_passed_by_others(state: Seen, out: Output, at: int, from_ts: int, unavailable: int, longest_us: int) -> None:
    """Adds to the report of a starved hash the later entry that another consumer was sent, if its owner was sent none.

    A broker that sends later entries to others has read the first entry of the hash, and looks at it at each read. It
    may pass over it while its owner has no permits; only flow rows show that it has some all the time. While its owner
    is sent anything, its turn may not have come.
    """
    entries, common, head = state.entries, state.common, state.hashes[at].queue.first
    owner = state.hashes[at].owner
    if owner < 0 or common[0].permits_known_by != BY_FLOWS or entries[head].marks & Mark.READ == 0:
        return
    passed_from = max(from_ts, entries[head].read_ts, state.consumers[owner].sent_ts) + unavailable + longest_us
    if common[0].last_dispatch.ts_us < passed_from:
        return
    latest = NOBODY
    for slot in range(entries.size):
        sent = entries[slot].marks & Mark.SENT != 0
        if entries[slot].ledger < 0 or not sent or entries[slot].sent_at.ts_us < passed_from:
            continue
        later = position_of(entries[slot]) > position_of(entries[head])
        if later and (latest == NOBODY or entries[slot].sent_at.ts_us > entries[latest].sent_at.ts_us):
            latest = slot
    if latest != NOBODY:
        row = out.filled[INTERVALS] - 1
        report = out.intervals
        report[row].passed_ledger = entries[latest].ledger
        report[row].passed_entry = entries[latest].entry
        report[row].passed_ts = entries[latest].sent_at.ts_us
        report[row].passed_by = entries[latest].sent_to


@compiled
def _may_be_unread(state: Seen, at: int, ts: int) -> bool:
    """Whether the broker had reason not to read the first entry of a hash at once (V10).

    It reads in order, and nothing while the look-ahead limit or that of unacknowledged messages is reached (4.2).
    """
    waits = state.waits.hashes
    limited_us = look_ahead_us(state, ts) - waits[at].clear_look_ahead_us
    limited_us += blocked_on_unacked_us(state, ts) - waits[at].clear_full_us
    return bool(limited_us > 0 or state.entries[state.hashes[at].queue.first].marks & Mark.IN_BACKLOG != 0)
