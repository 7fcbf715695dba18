"""A broker in a few dozen lines: one subscription of one partition, dispatched as PIP-379 promises.

It is what the generator runs to get traffic of any size in which hashes drain, move back and are redelivered, and in
which a correct audit finds nothing. Entries of a hash go in order to its owner; while another consumer holds any of
them the hash waits; what a leaving consumer held goes first. Nothing else of a broker is in it: no permits, no reads,
no limits.
"""

import heapq
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

PUBLISHED, SENT, ACKED, JOINED, LEFT = range(5)
NOBODY = -1


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


def run(published_us: Ints, hash_of: Ints, work_us: Ints, changes: Changes) -> Traffic:
    """Plays the traffic of one partition to its end.

    Args:
        published_us: when each message is published, ascending.
        hash_of: its hash, as a column of `changes.owners`.
        work_us: how long its consumer takes from the dispatch to the acknowledgement.
        changes: who is there.
    """
    return Traffic(*_run(published_us, hash_of, work_us, *changes).T)


# cache=True would keep one version for all machines that share a home; it compiles within seconds.
@numba.njit
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
    # The unacknowledged messages of a hash, in the order of publishing: those sent first, then those that wait.
    following = np.full(messages, NOBODY, dtype=np.int64)
    preceding = np.full(messages, NOBODY, dtype=np.int64)
    first = np.full(hashes, NOBODY, dtype=np.int64)
    last = np.full(hashes, NOBODY, dtype=np.int64)
    unsent = np.full(hashes, NOBODY, dtype=np.int64)
    held = np.zeros(hashes, dtype=np.int64)
    holder = np.full(hashes, NOBODY, dtype=np.int64)
    sends = np.zeros(messages, dtype=np.int64)
    acks = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    touched = np.empty(hashes, dtype=np.int64)
    epoch, change, message = -1, 0, 0
    while message < messages or len(acks) > 0 or change < change_us.size:
        if rows.shape[0] - used < 2 * hashes + messages // 4 + 16:
            more = np.empty((rows.shape[0] * 2, 4), dtype=np.int64)
            more[:used] = rows[:used]
            rows = more
        next_publish = published_us[message] if message < messages else np.iinfo(np.int64).max
        next_ack = acks[0][0] if len(acks) > 0 else np.iinfo(np.int64).max
        next_change = change_us[change] if change < change_us.size else np.iinfo(np.int64).max
        now = min(next_publish, next_ack, next_change)
        count = 0
        if next_change == now:
            consumer = change_consumer[change]
            rows[used] = (JOINED if change_joins[change] == 1 else LEFT, now, -1, consumer)
            used += 1
            epoch = change
            change += 1
            for h in range(hashes):
                if change_joins[epoch] == 0 and holder[h] == consumer:
                    holder[h], held[h], unsent[h] = NOBODY, 0, first[h]
                if unsent[h] >= 0:
                    touched[count] = h
                    count += 1
        elif next_ack == now:
            _, m, send = heapq.heappop(acks)
            h = hash_of[m]
            # A consumer that has left acknowledges nothing any more.
            if send != sends[m] or holder[h] == NOBODY or (unsent[h] >= 0 and unsent[h] <= m):
                continue
            rows[used] = (ACKED, now, m, holder[h])
            used += 1
            if preceding[m] >= 0:
                following[preceding[m]] = following[m]
            else:
                first[h] = following[m]
            if following[m] >= 0:
                preceding[following[m]] = preceding[m]
            else:
                last[h] = preceding[m]
            held[h] -= 1
            if held[h] == 0:
                holder[h] = NOBODY
                if unsent[h] >= 0:
                    touched[0] = h
                    count = 1
        else:
            h = hash_of[message]
            rows[used] = (PUBLISHED, now, message, -1)
            used += 1
            preceding[message] = last[h]
            if last[h] >= 0:
                following[last[h]] = message
            else:
                first[h] = message
            last[h] = message
            if unsent[h] < 0:
                unsent[h] = message
            touched[0] = h
            count = 1
            message += 1
        for i in range(count):
            h = touched[i]
            owner = owners[epoch, h] if epoch >= 0 else NOBODY
            if owner == NOBODY or (holder[h] != NOBODY and holder[h] != owner):
                continue
            while unsent[h] >= 0:
                m = unsent[h]
                if used == rows.shape[0]:
                    more = np.empty((rows.shape[0] * 2, 4), dtype=np.int64)
                    more[:used] = rows[:used]
                    rows = more
                rows[used] = (SENT, now, m, owner)
                used += 1
                sends[m] += 1
                holder[h] = owner
                held[h] += 1
                heapq.heappush(acks, (now + work_us[m], np.int64(m), sends[m]))
                unsent[h] = following[m]
    return rows[:used]
