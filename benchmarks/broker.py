"""A broker in a few dozen lines: one subscription of one partition, dispatched as PIP-379 promises.

It is what the generator runs to get traffic of any size in which hashes drain, move back and are redelivered, and in
which a correct audit finds nothing. Entries of a hash go in order to its owner; while another consumer holds any of
them the hash waits; what a leaving consumer held goes first. Nothing else of a broker is in it: no permits, no reads,
no limits.
"""

import heapq
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.compilation.compiler import Compiler

Ints = NDArray[np.int64]

PUBLISHED, SENT, ACKED, JOINED, LEFT = range(5)
NOBODY = -1
_NONE = -1
_NEVER = np.iinfo(np.int64).max


# These functions make arrays, which those of the core cannot (`dispatch_audit.pipeline.replay.state.compiled`).
_compiled: Final = Compiler([Path(__file__)], make_arrays=True)


class Changes(NamedTuple):
    """Membership changes of one subscription, in the order of time.

    Attributes:
        at_us: when.
        consumer: who, counted from 0 in the order of the joins.
        joins: 1 for a join, 0 for a leave.
        owners: for each change the owner of each hash from then on (NOBODY: none), shape (changes, hashes).
    """

    at_us: Ints
    consumer: Ints
    joins: Ints
    owners: NDArray[np.int32]


class Traffic(NamedTuple):
    """What happened, in the order of time; columns of equal length.

    Attributes:
        what: PUBLISHED, SENT, ACKED, JOINED or LEFT.
        at_us: when.
        message: which message; -1 of a membership change.
        consumer: who; -1 of a publish.
    """

    what: Ints
    at_us: Ints
    message: Ints
    consumer: Ints


class _Queues(NamedTuple):
    """The unacknowledged messages of each hash in the order of publishing: those sent first, then those that wait.

    Attributes:
        following: of each message the one after it in its hash, as for the others -1 where there is none.
        preceding: of each message the one before it.
        sends: how often each message was sent.
        first: of each hash its first message.
        last: its last message.
        unsent: the first of those that wait.
        held: how many were sent.
        holder: to whom.
    """

    following: Ints
    preceding: Ints
    sends: Ints
    first: Ints
    last: Ints
    unsent: Ints
    held: Ints
    holder: Ints


_Due = list[tuple[np.int64, np.int64, np.int64]]
"""A heap of acknowledgements to come: when, of which message, of which of its sends."""


def run(published_us: Ints, hash_of: Ints, work_us: Ints, changes: Changes) -> Traffic:
    """Plays the traffic of one partition to its end.

    Args:
        published_us: when each message is published, ascending.
        hash_of: its hash, as a column of `changes.owners`.
        work_us: how long its consumer takes from the dispatch to the acknowledgement.
        changes: who is there.
    """
    return Traffic(*_run(published_us, hash_of, work_us, *changes).T)


@_compiled
def _run(
    published_us: Ints,
    hash_of: Ints,
    work_us: Ints,
    change_us: Ints,
    change_consumer: Ints,
    change_joins: Ints,
    owners: NDArray[np.int32],
) -> Ints:
    messages, hashes = published_us.size, owners.shape[1]
    rows = np.empty((4 * messages + 1024, 4), dtype=np.int64)
    used = 0
    queues = _empty(messages, hashes)
    # numba takes the type of an empty list from what would be in it.
    due = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    touched = np.empty(hashes, dtype=np.int64)
    change, message = 0, 0
    while message < messages or len(due) > 0 or change < change_us.size:
        next_publish = published_us[message] if message < messages else _NEVER
        next_ack = due[0][0] if len(due) > 0 else _NEVER
        next_change = change_us[change] if change < change_us.size else _NEVER
        now = min(next_publish, next_ack, next_change)
        if next_change == now:
            consumer, joins = change_consumer[change], change_joins[change]
            rows, used = _noted(rows, used, JOINED if joins == 1 else LEFT, now, -1, consumer)
            count = _changed(queues, consumer, joins, touched)
            change += 1
        elif next_ack == now:
            _, acked, send = heapq.heappop(due)
            h = hash_of[acked]
            # A consumer that has left acknowledges nothing any more.
            if send != queues.sends[acked] or queues.holder[h] == NOBODY or 0 <= queues.unsent[h] <= acked:
                continue
            rows, used = _noted(rows, used, ACKED, now, acked, queues.holder[h])
            touched[0] = h
            count = _acknowledged(queues, acked, h)
        else:
            h = hash_of[message]
            rows, used = _noted(rows, used, PUBLISHED, now, message, -1)
            _published(queues, message, h)
            touched[0] = h
            count = 1
            message += 1
        for i in range(count):
            h = touched[i]
            owner = owners[change - 1, h] if change > 0 else NOBODY
            rows, used = _sent(queues, h, owner, now, work_us, due, rows, used)
    return rows[:used]


@_compiled
def _empty(messages: int, hashes: int) -> _Queues:
    return _Queues(
        following=np.full(messages, _NONE, dtype=np.int64),
        preceding=np.full(messages, _NONE, dtype=np.int64),
        sends=np.zeros(messages, dtype=np.int64),
        first=np.full(hashes, _NONE, dtype=np.int64),
        last=np.full(hashes, _NONE, dtype=np.int64),
        unsent=np.full(hashes, _NONE, dtype=np.int64),
        held=np.zeros(hashes, dtype=np.int64),
        holder=np.full(hashes, NOBODY, dtype=np.int64),
    )


@_compiled
def _noted(rows: Ints, used: int, what: int, at_us: int, message: int, consumer: int) -> tuple[Ints, int]:
    """`rows` with one more, and how many there are now."""
    if used == rows.shape[0]:
        more = np.empty((rows.shape[0] * 2, 4), dtype=np.int64)
        more[:used] = rows
        rows = more
    rows[used] = (what, at_us, message, consumer)
    return rows, used + 1


@_compiled
def _changed(queues: _Queues, consumer: int, joins: int, touched: Ints) -> int:
    """Takes from a consumer that leaves what it holds; returns how many hashes have something to send."""
    count = 0
    for h in range(queues.first.size):
        if joins == 0 and queues.holder[h] == consumer:
            queues.holder[h], queues.held[h], queues.unsent[h] = NOBODY, 0, queues.first[h]
        if queues.unsent[h] >= 0:
            touched[count] = h
            count += 1
    return count


@_compiled
def _acknowledged(queues: _Queues, message: int, h: int) -> int:
    """Takes a message out; returns 1 if its hash has drained and has something to send, else 0."""
    before, following = queues.preceding[message], queues.following[message]
    if before >= 0:
        queues.following[before] = following
    else:
        queues.first[h] = following
    if following >= 0:
        queues.preceding[following] = before
    else:
        queues.last[h] = before
    queues.held[h] -= 1
    if queues.held[h] > 0:
        return 0
    queues.holder[h] = NOBODY
    return 1 if queues.unsent[h] >= 0 else 0


@_compiled
def _published(queues: _Queues, message: int, h: int) -> None:
    last = queues.last[h]
    queues.preceding[message] = last
    if last >= 0:
        queues.following[last] = message
    else:
        queues.first[h] = message
    queues.last[h] = message
    if queues.unsent[h] < 0:
        queues.unsent[h] = message


@_compiled
def _sent(
    queues: _Queues, h: int, owner: int, now: int, work_us: Ints, due: _Due, rows: Ints, used: int
) -> tuple[Ints, int]:
    """Sends what waits in a hash to its owner, unless another consumer holds some of it; returns as `_noted` does."""
    if owner == NOBODY or (queues.holder[h] != NOBODY and queues.holder[h] != owner):
        return rows, used
    while queues.unsent[h] >= 0:
        message = queues.unsent[h]
        rows, used = _noted(rows, used, SENT, now, message, owner)
        queues.sends[message] += 1
        queues.holder[h] = owner
        queues.held[h] += 1
        heapq.heappush(due, (now + work_us[message], message, queues.sends[message]))
        queues.unsent[h] = queues.following[message]
    return rows, used
