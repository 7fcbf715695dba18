"""The waits of a consumer that can be sent nothing, and how much of what waits for it is in replay."""

import numpy as np

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
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of


def blocked_consumer(state: Seen, consumer: int, cause: str, interval: Interval, reported: Reported) -> list[Blocked]:
    """The waiting intervals of an unavailable consumer: one of the consumer, and one for each hash that waited.

    `reported` is what snapshots say since the read position was rewound last.
    """
    waiting = waiters(state)
    waiting = waiting.where((waiting.owner == consumer) & ~waiting.drains)
    if waiting.slot.size == 0:
        return []
    roots = oldest_held(state, consumer, interval.to_seq)
    waited = waiting.waited_us(interval)
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
    return [whole, *(_blocked_hash(waiting.where(waiting.hash == h), whole) for h in np.unique(waiting.hash))]


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


def _blocked_hash(waiting: Waiters, whole: Blocked) -> Blocked:
    return whole._replace(
        scope="hash",
        hash=int(waiting.hash[0]),
        span=_from_first_waiter(waiting, whole.span),
        entries=waiting.slot.size,
        waited_us=int(waiting.waited_us(whole.span).sum()),
        detail={},
    )


def _from_first_waiter(waiting: Waiters, interval: Interval) -> Interval:
    """The interval, begun no earlier than the first entry waited."""
    first = np.lexsort((waiting.since_seq, waiting.since_ts))[0]
    seq, ts_us = int(waiting.since_seq[first]), int(waiting.since_ts[first])
    return interval if ts_us <= interval.from_ts else interval._replace(from_seq=seq, from_ts=ts_us)
