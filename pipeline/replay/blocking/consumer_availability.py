"""Intervals in which a consumer could be sent nothing, and what waited for it meanwhile.

The kernel stops where one ends, so that the waiting entries are counted while the state still shows them.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.attribution import (
    Blocked,
    Interval,
    Waiters,
    largest,
    oldest_held,
    sent_from_replay,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.stalls.reported import Reported, may_be_skipped, shown_as_read
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US, SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import INTERVAL_OVER, Output, new_interval
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, position_of, ran_us, run_while, set_point
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByBlocking, common_of, was_reset
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, Cause


@compiled
def update_availability(
    state: SeenByBlocking, out: Output, consumer: int, point: TracePoint, ended_by: int, report_min_us: int
) -> None:
    """Updates the cause for which a consumer can be sent nothing; see `flow_control.note_capacity`."""
    consumers, waits = state.consumers, state.waits.consumers
    cause, blocks_at = Cause.READY, state.common[0].blocks_at
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
        set_point(waits[consumer].cause_since, point)
    is_unserved = waits[consumer].cause != Cause.READY or consumers[consumer].blocked == 1
    run_while(waits[consumer].unserved, is_unserved, point.ts_us)


def note_reported(state: SeenByBlocking, unacked: Mapping[int, int], short: Collection[int], point: TracePoint) -> None:
    """Takes from a snapshot who can be sent nothing, and who because of what was skipped or sent twice (E6, F10).

    `unacked` has the messages that the broker counts for each consumer, by its index; `short` can be sent nothing.
    """
    consumers, waits = state.consumers.view(np.ndarray), state.waits.consumers.view(np.ndarray)
    since_ts = waits["short_since_ts"]
    for one in {*np.flatnonzero(since_ts).tolist()} ^ {*short}:
        since_ts[one] = point.ts_us if one in short else 0
    blocks_at = int(common_of(state)["blocks_at"])
    for consumer, counted in unacked.items():
        seen, wait = consumers[consumer], waits[consumer]
        # Rows of what has just happened may come before the snapshot, although it was taken earlier.
        if max(seen["sent_ts"], seen["gave_up_at"]["ts_us"]) > point.ts_us - READ_AND_PAUSE_US:
            continue
        wait["counts_more"] = min(max(counted - seen["unacked"], 0), seen["uncounted"])
        if 0 < blocks_at <= seen["unacked"] + wait["counts_more"] and wait["cause"] == Cause.READY:
            wait["former"], wait["cause"] = Cause.READY, Cause.UNACKED_LIMIT_CONSUMER
            wait["cause_since"] = point
            if wait["unserved"]["since_ts"] == UNKNOWN:
                wait["unserved"]["since_ts"] = point.ts_us


def may_be_unwritable(state: Seen, since_seq: int) -> NDArray[np.bool_]:
    """Which consumers may have connections that take nothing: they hold entries, and gave up none since a row."""
    consumers: Any = state.consumers.view(np.ndarray)
    unwritable: NDArray[np.bool_] = (consumers["held"] > 0) & (consumers["gave_up_at"]["seq"] <= since_seq)
    return unwritable


@compiled
def end_unavailability(
    state: SeenByBlocking, out: Output, consumer: int, point: TracePoint, ended_by: int, report_min_us: int
) -> None:
    """Ends the interval in which a consumer could be sent nothing, if there is one, and reports it."""
    waits = state.waits.consumers
    cause, since = waits[consumer].cause, TracePoint(waits[consumer].cause_since.seq, waits[consumer].cause_since.ts_us)
    if cause == Cause.READY:
        return
    waits[consumer].former, waits[consumer].cause = cause, Cause.READY
    set_point(waits[consumer].cause_since, point)
    waits[consumer].unavailable_us += point.ts_us - since.ts_us
    if point.ts_us - since.ts_us < report_min_us:
        return
    new_interval(out, cause, consumer, UNKNOWN, since, point, ended_by)
    out.stop[0] = INTERVAL_OVER


@compiled
def is_released(state: Seen) -> bool:
    """Whether mark-delete has reached the position that a recently joined consumer waits for."""
    common, waits = state.common, state.waits.common
    return bool(
        waits[0].join_release.ledger != UNKNOWN
        and (common[0].mark_delete.ledger, common[0].mark_delete.entry + 1) >= position_of(waits[0].join_release)
    )


@compiled
def mark_delete_is_guessed(state: Seen) -> bool:
    """Whether mark-delete is no more than a guess, which may be too high.

    After a reset it is derived from the first publish or dispatch, until a snapshot shows it.
    """
    common = state.common
    return bool(was_reset(state) and common[0].shown_ts <= common[0].unseen_until_ts)


@compiled
def note_head_read(state: SeenByBlocking, at: int, point: TracePoint) -> None:
    """Notes that the broker has read the first waiting entry of a hash."""
    waits = state.waits.hashes
    set_point(waits[at].read, point)
    waits[at].read_unserved_us = unserved_us(state, state.hashes[at].owner, point.ts_us)


@compiled
def begin_hash(state: SeenByBlocking, at: int) -> None:
    """Begins the memory of a hash that gets a slot."""
    state.waits.hashes[at].why = Cause.READY
    state.waits.hashes[at].read.ts_us = UNKNOWN
    state.waits.hashes[at].owned_ts = state.waits.hashes[at].free_ts = 0


@compiled
def unavailable_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which a consumer could be sent nothing; 0 for nobody."""
    if consumer < 0:
        return 0
    consumers = state.waits.consumers
    open_us = ts - consumers[consumer].cause_since.ts_us if consumers[consumer].cause != Cause.READY else 0
    return int(consumers[consumer].unavailable_us + open_us)


@compiled
def unserved_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which the broker did not read for a consumer; 0 for nobody.

    It does not for one that is blocked on unacknowledged messages, but may send it what it reads for others (4.2, 4.8).
    """
    if consumer < 0:
        return 0
    return ran_us(state.waits.consumers[consumer].unserved, ts)


def short_until_us(state: Seen, consumer: int, ts: int) -> int:
    """The last time up to `ts` at which a consumer had no permits or was at its limit; UNKNOWN: never."""
    wait = state.waits.consumers.view(np.ndarray)[consumer]
    if wait["cause"] != Cause.READY:
        return ts
    return int(wait["cause_since"]["ts_us"]) if wait["former"] != Cause.READY else UNKNOWN


@compiled
def may_be_blocked(state: Seen, consumer: int) -> bool:
    """Whether a consumer may have been at its limit, and not have come down to half of it (4.14).

    The broker may count what was skipped while it was held, or was sent twice (E6, F10).
    """
    limit, uncounted = state.common[0].blocks_at, state.consumers[consumer].uncounted
    return bool(limit > 0 and uncounted > 0 and 2 * (state.consumers[consumer].unacked + uncounted) >= limit)


@compiled
def blocked_until_ts(state: Seen, consumer: int, ts: int) -> int:
    """Until when a consumer was, or may have been, blocked: `ts` if it may be now, and 0 for nobody."""
    if consumer < 0:
        return 0
    of = state.consumers[consumer]
    if of.blocked == 1 or may_be_blocked(state, consumer):
        return ts
    # With the last that it gave up it may have come down to half of the limit.
    perhaps_ts = of.gave_up_at.ts_us if of.uncounted > 0 and state.common[0].blocks_at > 0 else 0
    return int(max(of.unblocked_ts, perhaps_ts))


def blocked_consumer(
    state: SeenByBlocking, consumer: int, cause: str, interval: Interval, reported: Reported
) -> list[Blocked]:
    """The waiting intervals of an unavailable consumer: one of the consumer, and one for each hash that waited.

    The time that entries waited in it counts in no other interval of their hash. `reported` is what snapshots say since
    the read position was rewound last.
    """
    waiting = waiters(state)
    waiting = waiting.where((waiting.owner == consumer) & ~waiting.drains)
    if waiting.slot.size == 0:
        return []
    roots = oldest_held(state, consumer, interval.to_seq)
    waited = _count_here(state, waiting, interval)
    in_replay = _in_replay(state, waiting, interval, reported)
    detail: dict[str, object] = {"hashes": largest(waiting.hash, waited), "in_replay": in_replay}
    whole = Blocked(
        "consumer",
        cause,
        UNKNOWN,
        consumer,
        consumer,
        _from_first_waiter(waiting, interval),
        waiting.slot.size,
        int(waited.sum()),
        roots,
        detail,
    )
    hashes = (waiting.hash == sticky for sticky in np.unique(waiting.hash))
    return [whole, *(_blocked_hash(waiting.where(of_hash), waited[of_hash], whole) for of_hash in hashes)]


def _count_here(state: SeenByBlocking, waiting: Waiters, interval: Interval) -> Ints:
    """How long each entry waited in an interval after its hash had drained, in message-microseconds.

    The row of the draining has the time before. The interval of the hash itself goes on, and does not count it again.
    """
    hashes = state.waits.hashes.view(np.ndarray)
    of_hash = waiting.waited_us(interval, hashes["clear"]["ts_us"][waiting.hash_at])
    np.add.at(hashes["clear_idle_us"], waiting.hash_at, of_hash)
    return waiting.waited_us(interval, hashes["free_ts"][waiting.hash_at])


def _in_replay(state: Seen, waiting: Waiters, interval: Interval, reported: Reported) -> int:
    """How many of the entries are in replay: those that were read, or what a snapshot counts beyond those of others.

    What an administrator may have skipped waits as far as rows show, but need not be there any more (contract 5.10).
    """
    common = common_of(state)
    read = shown_as_read(state, waiting, reported) & ~may_be_skipped(state, waiting, reported)
    # What was sent after the snapshot may have been in replay when it was taken. A single consumer was sent nothing.
    sent_ts = 0 if common["connected"] == 1 else int(common["last_dispatch"]["ts_us"])
    counted = reported.since(max(interval.from_ts, sent_ts) + SNAPSHOT_LAG_US).in_replay or 0
    shown = int(np.count_nonzero(read))
    # All entries are scanned only if that can raise the number.
    return shown if counted <= shown else max(shown, counted - _perhaps_in_replay_for_others(state, waiting.owner[0]))


def _perhaps_in_replay_for_others(state: Seen, consumer: int) -> int:
    """How many entries that a consumer does not own may be in replay at most."""
    each = waiters(state), waiters(state, delayed=True), sent_from_replay(state)
    return sum(int(np.count_nonzero(entries.owner != consumer)) for entries in each)


def _blocked_hash(waiting: Waiters, waited: Ints, whole: Blocked) -> Blocked:
    return whole._replace(
        scope="hash",
        hash=int(waiting.hash[0]),
        span=_from_first_waiter(waiting, whole.span),
        entries=waiting.slot.size,
        waited_us=int(waited.sum()),
        detail={},
    )


def _from_first_waiter(waiting: Waiters, interval: Interval) -> Interval:
    """The interval, begun no earlier than the first entry waited."""
    first = np.lexsort((waiting.since_seq, waiting.since_ts))[0]
    seq, ts_us = int(waiting.since_seq[first]), int(waiting.since_ts[first])
    return interval if ts_us <= interval.from_ts else interval._replace(from_seq=seq, from_ts=ts_us)
