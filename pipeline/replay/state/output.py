"""The reports of the kernel: records that it fills and the caller empties.

The arrays have a fixed length. When one is nearly full, the kernel stops in front of an event and returns; the caller
takes the reports and continues. So no finding is lost, and the hot loop allocates nothing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, Records, named_record, plain


class _By(NamedTuple):
    """Events that end an interval."""

    ACK: int = 0
    REDELIVER: int = 1
    LEAVE: int = 2
    MARK_DELETE: int = 3
    RESET: int = 4
    OPEN: int = 5  # nothing ends it: the trace does
    FLOW: int = 6
    DISPATCH: int = 7
    JOIN: int = 8
    GAP: int = 9  # the rows that would end it may be missing
    SETTINGS: int = 10
    DUE: int = 11  # the time of its delivery has come
    RETURNED: int = 12  # a draining hash returned to its holder


By: Final = _By()
ENDINGS: Final = tuple(name.lower() for name in By._fields)
"""Their words, by their numbers."""

# Why the kernel stops in front of a row (`Output.stop`).
INTERVAL_OVER: Final = 1  # an interval of waiting is over
STALLED: Final = 2  # nothing was sent to any consumer for long, until this row
SAMPLE: Final = 3  # the next capacity sample is due
RELEASED: Final = 4  # mark-delete has reached the position that a recently joined consumer waits for
GIVES_UP: Final = 6  # nothing was sent for long, and the row takes an entry from a consumer: this may end it
PASSES: Final = 7  # nothing was sent for long, and mark-delete passes entries that wait: this may end it
CONTRADICTED: Final = 5  # the broker contradicts a claimed limit

OF_CONSUMER: Final = 0
OF_SUBSCRIPTION: Final = 1
"""`limited` of a finding about a limit: whose limit."""

# The largest number of findings or unsent dispatches that one event can cause.
PER_EVENT: Final = 8

_AT_ONCE: Final = 4096


class KernelFinding(NamedTuple):
    """A rule that a dispatch or an acknowledgement broke.

    Each field begins with the value that says that nothing is known of it. `other_*` is the other entry and its
    dispatch, where the rule names one.
    """

    rule: int = UNKNOWN  # its number in `contract.rules`
    seq: int = UNKNOWN  # the row that completes the finding
    ts_us: int = UNKNOWN  # the time of that row
    ledger: int = UNKNOWN  # of the entry
    entry: int = UNKNOWN  # of the entry
    hash: int = UNKNOWN  # of the entry
    key_id: int = UNKNOWN  # of the entry
    consumer: int = NOBODY  # the index of the receiver
    other_consumer: int = NOBODY  # the index of the consumer on the other side
    other_seq: int = UNKNOWN  # the dispatch of the other entry
    other_ledger: int = UNKNOWN  # of the other entry
    other_entry: int = UNKNOWN  # of the other entry
    other_key_id: int = UNKNOWN  # of the other entry
    draining: int = 0  # 1 while the hash drains
    acknowledged: int = 0  # 1 if the entry was acknowledged before
    marks: int = 0  # of the entry, before the dispatch
    other_marks: int = 0  # of the other entry
    since_seq: int = UNKNOWN  # when the entry last began to wait
    since_ts: int = UNKNOWN  # the time of that row
    hash_since_seq: int = UNKNOWN  # since when one entry of the hash or another has waited; UNKNOWN: none
    hash_since_ts: int = UNKNOWN  # the time of that row
    other_since_seq: int = UNKNOWN  # when the other entry last began to wait
    other_since_ts: int = UNKNOWN  # the time of that row
    other_ts: int = UNKNOWN  # the time of the other dispatch
    other_due_ts: int = UNKNOWN  # when the other entry is due, if it asks for delayed delivery, whether heeded or not
    sent_before_to: int = NOBODY  # the receiver of the dispatch of the entry before
    sent_before_seq: int = UNKNOWN  # that dispatch
    read_ts: int = UNKNOWN  # since when the entry is READ; UNKNOWN: it was not
    reported_read: int = 0  # 1 if a snapshot shows that the broker had read past the entry
    left_sent_seq: int = UNKNOWN  # the last dispatch of an entry of the hash that a leaver had held
    value: int = UNKNOWN  # for counts and limits, the recorded value
    expected: int = UNKNOWN  # the value that the rule allows
    limited: int = 0  # whose limit it is about: OF_CONSUMER, OF_SUBSCRIPTION
    said: int = 0  # 1 if a row says that limit
    read_when_full: int = 0  # entries read since the subscription is at its limit; 0: not about that limit
    vague: int = 0  # 1 if the broker's own count may be lower than that of the trace
    permitted: int = 0  # the number of the exception that permits it, from the collector; 0: none


FINDING = named_record("finding", KernelFinding)
NOTHING_KNOWN: Final = np.array([KernelFinding()], dtype=FINDING).view(np.recarray)
"""One finding, with which each begins."""


def findings_at(found: Records, indexes: Ints) -> Iterator[tuple[int, KernelFinding]]:
    """The findings at some indexes, each with its index, in their order; `_AT_ONCE` of them at a time take memory."""
    for start in range(0, indexes.size, _AT_ONCE):
        part = indexes[start : start + _AT_ONCE]
        yield from zip(part.tolist(), plain(found.view(np.ndarray)[part], KernelFinding), strict=True)


class KernelEpisode(NamedTuple):
    """A draining episode: a hash that moved away while its holder had entries of it pending, until it has none of them.

    The hash may return meanwhile and move away again. Each time in which it was away and that its return ended is
    reported by itself (`ended_by` RETURNED), with what waited in it; the episode at its end, with what waited in the
    last of them.
    """

    hash: int = UNKNOWN
    holder: int = NOBODY
    new_owner: int = NOBODY
    from_seq: int = UNKNOWN  # UNKNOWN: none is open
    to_seq: int = UNKNOWN
    from_ts: int = UNKNOWN
    to_ts: int = UNKNOWN
    held_at_start: int = 0
    held_at_end: int = 0
    away_seq: int = UNKNOWN  # since when the hash is away
    held_when_away: int = 0  # what its holder held then
    root_ledger: int = UNKNOWN
    root_entry: int = UNKNOWN
    returned_seq: int = UNKNOWN  # when the hash came back; UNKNOWN: it is away
    returned_ts: int = UNKNOWN
    ended_by: int = UNKNOWN
    blocked_seq: int = UNKNOWN  # since when an entry waited for it to come back; UNKNOWN: none has
    blocked_ts: int = UNKNOWN
    awaited: int = 0  # how often an entry began to wait so
    waited_us: int = 0  # message-microseconds


EPISODE = named_record("episode", KernelEpisode)
NEW_EPISODE: Final = np.array([KernelEpisode()], dtype=EPISODE).view(np.recarray)


class KernelInterval(NamedTuple):
    """A time in which a consumer could be sent nothing, or in which a hash could be served and was not."""

    cause: int
    consumer: int
    hash: int
    from_seq: int
    from_ts: int
    to_seq: int
    to_ts: int
    ended_by: int
    registered: int
    drained_from: int
    waiting: int
    waited_us: int
    unavailable_us: int
    ledger: int
    entry: int
    passed_ledger: int
    passed_entry: int
    passed_ts: int
    passed_by: int  # who was sent the later entry
    takes_since_ts: int  # since when the owner certainly had permits, as far as it was not unavailable
    holds: int  # 1 if its owner holds messages, or gave up some since it began
    blocked_until_ts: int  # until when the owner was, or may have been, blocked on unacknowledged messages


INTERVAL = named_record("interval", KernelInterval)


class Withdrawal(NamedTuple):
    """An entry that was perhaps neither pending nor waiting from a time until a row."""

    ledger: int
    entry: int
    since_ts: int
    until_seq: int


WITHDRAWAL = named_record("withdrawal", Withdrawal)


@checkpointed("output")
class Output(NamedTuple):
    """The records and how many of each are filled.

    `unsent` are the dispatches (by the seq of their start) that never reached the connection: findings that depend on
    them are dropped (TRACE_FORMAT, "Phases"). `withdrawn` are entries that for a while were perhaps neither pending nor
    waiting. `stop` is one number: why the kernel stops in front of the next row; 0: it goes on.
    """

    findings: Records  # of FINDING
    episodes: Records  # of EPISODE
    unsent: Ints
    withdrawn: Records  # of WITHDRAWAL
    intervals: Records  # of INTERVAL
    filled: Ints
    stop: Ints


# Indexes into `Output.filled`.
FINDINGS: Final = 0
EPISODES: Final = 1
UNSENT: Final = 2
WITHDRAWN: Final = 3
INTERVALS: Final = 4


def new_output(findings: int, hashes: int, entries: int) -> Output:
    """An empty output with room for so many findings, and for what one event may add of all hashes and all entries."""
    return Output(
        findings=np.zeros(findings, dtype=FINDING).view(np.recarray),
        episodes=np.zeros(2 * hashes, dtype=EPISODE).view(np.recarray),
        unsent=np.zeros(2 * entries, dtype=np.int64),
        withdrawn=np.zeros(findings + entries, dtype=WITHDRAWAL).view(np.recarray),
        # Of a hash one call may end two waits and report two entries as starved.
        intervals=np.zeros(4 * hashes, dtype=INTERVAL).view(np.recarray),
        filled=np.zeros(5, dtype=np.int64),
        stop=np.zeros(1, dtype=np.int64),
    )


@compiled
def nearly_full(out: Output, hashes: int, entries: int) -> bool:
    """Whether one more event might not fit; an event may end one episode of every hash, and withdraw every entry."""
    return bool(
        out.filled[FINDINGS] + PER_EVENT > out.findings.size
        or out.filled[EPISODES] > out.episodes.size - hashes
        or out.filled[UNSENT] + 2 * PER_EVENT > out.unsent.size
        or out.filled[WITHDRAWN] > out.withdrawn.size - entries
        or out.filled[INTERVALS] + PER_EVENT > out.intervals.size - hashes
    )


@compiled
def new_interval(
    out: Output, cause: int, consumer: int, sticky_hash: int, since: TracePoint, until: TracePoint, ended_by: int
) -> int:
    """Begins the record of an interval; returns its index, and the caller fills in what else it knows.

    `sticky_hash` is UNKNOWN if it is about a consumer; `ended_by` is one of `ENDINGS`.
    """
    row = out.filled[INTERVALS]
    out.filled[INTERVALS] = row + 1
    report = out.intervals
    report[row].cause = cause
    report[row].consumer = consumer
    report[row].hash = sticky_hash
    report[row].from_seq = since.seq
    report[row].from_ts = since.ts_us
    report[row].to_seq = until.seq
    report[row].to_ts = until.ts_us
    report[row].ended_by = ended_by
    return int(row)
