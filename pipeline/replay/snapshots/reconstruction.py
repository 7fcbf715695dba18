"""Reconstructs the numbers of a snapshot from the state of the replay.

Rows are intervals, so every number has a lower and an upper bound. The lower bound counts entries that have reached the
consumer's connection and are not being acknowledged. The upper bound adds dispatches in progress, and acknowledgements
and redeliver commands whose effect is not recorded yet (TRACE_FORMAT, "Phases").
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.blocking.attribution import are_after, are_before
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import TRACKED, Mark, Reset


@checkpointed("bounds")
class Estimate(NamedTuple):
    """The lower and upper bound of a number, both inclusive."""

    least: int
    most: int

    def widened(self, other: "Estimate") -> "Estimate":
        """The bounds that contain these and the others."""
        return Estimate(min(self.least, other.least), max(self.most, other.most))

    def admits(self, value: int) -> bool:
        """Whether the number may be `value`."""
        return self.least <= value <= self.most


NONE = Estimate(0, 0)


@checkpointed("reconstruction")
class Reconstruction(NamedTuple):
    """The dispatcher at one moment; consumers are indexes into the state."""

    unacked: Mapping[int, Estimate]  # unacknowledged messages by consumer
    # Pending entries by consumer and hash, for hashes that drain from the consumer.
    draining: Mapping[tuple[int, int], Estimate]
    # Pending entries by consumer and hash, for other hashes that the broker may list for a moment.
    pending: Mapping[tuple[int, int], Estimate]
    in_replay: Estimate  # entries that wait and were read
    # Whether the broker may still list entries that a skip moved mark-delete over: brokers that release entries at any
    # move of mark-delete do so at their next read, which a skip does not begin (contract 5.9), and no dispatch shows
    # such a read.
    passed: bool


def reconstruct(state: Seen, snapshot: Snapshot, returned_us: int, releases_at_read: bool) -> Reconstruction:
    """The numbers of the dispatcher at this moment.

    Args:
        state: the state of the kernel.
        snapshot: the snapshot to compare with: waiting entries before its read position are in replay, and entries
            that its mark-delete has passed may be dropped (E6).
        returned_us: entries that a redeliver row returned since this time may still be pending, because the row
            precedes its effect.
        releases_at_read: whether mark-delete releases the entries that it passes at the next read
            (`Profile.mark_delete_releases` is `any`).
    """
    # Plain arrays, because each attribute of a record array takes microseconds; only used slots, because these are few.
    entries: Any = state.entries.view(np.ndarray)
    used = np.flatnonzero(entries["ledger"] != UNKNOWN)
    marks, sent_to, holder = entries["marks"][used], entries["sent_to"][used], entries["holder"][used]
    common = common_of(state)
    held = holder >= 0
    certain = held & (marks & (Mark.MAYBE_SKIPPED | Mark.VAGUE) == 0)
    if common["starts_seen"]:
        certain &= marks & Mark.DISPATCH_CONFIRMED != 0
    if common["resetting"] == Reset.BEGUN:
        # The dispatcher may already be gone.
        certain[:] = False
    if snapshot.mark_delete is not None:
        certain &= are_after(state, used, snapshot.mark_delete)
    # An acknowledged entry keeps the consumer to which it was sent, if it was sent (5.1).
    unsettled = marks & Mark.SETTLING != 0
    returned = np.flatnonzero(marks & Mark.NACKED != 0)
    unsettled[returned] |= entries["since"]["ts_us"][used[returned]] >= returned_us
    possible = held | (unsettled & (sent_to >= 0))
    at = np.where(held, holder, sent_to)
    size, unacked = len(state.consumers), entries["unacked"][used]
    least = np.bincount(at[certain], weights=unacked[certain], minlength=size).astype(np.int64).tolist()
    most = np.bincount(at[possible], weights=unacked[possible], minlength=size).astype(np.int64).tolist()
    if releases_at_read:
        # An entry that a read in flight sent again after its acknowledgement is released, but its consumer keeps the
        # count (4.2).
        certain &= are_after(state, used, common["mark_delete"].item())
    draining, pending = _by_hash(state, entries["hash_at"][used], at, certain, possible)
    # Delayed entries that were never sent are in the tracker of delayed messages, not in replay (4.13).
    waiting = used[(marks & Mark.WAITING != 0) & (marks & TRACKED != Mark.DELAYED)]
    in_replay = waiting.size
    if snapshot.read_position is not None:
        in_replay = int(np.count_nonzero(are_before(state, waiting, snapshot.read_position)))
    return Reconstruction(
        dict(enumerate(map(Estimate, least, most))),
        draining,
        pending,
        Estimate(in_replay, in_replay),
        bool(
            releases_at_read
            and common["skip_begun_ts"] != UNKNOWN
            # Until then a read that was in flight may have sent entries.
            and common["last_dispatch"]["ts_us"] <= common["skip_begun_ts"] + READ_US
        ),
    )


def _by_hash(
    state: Seen, places: NDArray[Any], at: NDArray[Any], certain: NDArray[np.bool_], possible: NDArray[np.bool_]
) -> tuple[dict[tuple[int, int], Estimate], dict[tuple[int, int], Estimate]]:
    hashes: Any = state.hashes.view(np.ndarray)
    draining: dict[tuple[int, int], Estimate] = {}
    pending: dict[tuple[int, int], Estimate] = {}
    candidates = np.flatnonzero(possible & (places >= 0))
    hash_at = places[candidates]
    away = (hashes["episode"]["from_seq"][hash_at] != UNKNOWN) & (hashes["hash"][hash_at] != UNKNOWN)
    # Only draining hashes and uncertain entries can differ from the broker's list, and both are few.
    listed = np.flatnonzero(away | ~certain[candidates])
    if not listed.size:
        return draining, pending
    slots, hash_at = candidates[listed], hash_at[listed]
    holder = at[slots]
    drains = away[listed] & (hashes["away"][hash_at] == 1) & (hashes["holder"][hash_at] == holder)
    columns = (holder, hashes["hash"][hash_at], drains, certain[slots])
    for index, sticky_hash, drained, sure in zip(*(column.tolist() for column in columns), strict=True):
        bounds, key = draining if drained else pending, (index, sticky_hash)
        least, most = bounds.get(key, NONE)
        bounds[key] = Estimate(least + sure, most + 1)
    return draining, pending
