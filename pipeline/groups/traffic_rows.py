"""Rows of `consumers`, `producers` (Q29) and `hot_keys` (Q18): who got and published how much, and which keys are hot.

A consumer has its share, and the statistics of the broker by its names (contract 7): they are those at the moment when
the consumer left or the trace ended. The columns `..._max` are the largest values at any moment.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dispatch_audit.pipeline.groups.columns import Rows
from dispatch_audit.pipeline.packing.producer_summary import Producers
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.state.output import By, KernelEpisode
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, Records, chosen, plain
from dispatch_audit.pipeline.replay.state.state import positions_at_joins
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import KeyCounts
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import position

# The bytes that the broker needs for a draining hash, as PIP-379 estimates.
_BYTES_A_HASH = 80


def consumers(context: FindingContext) -> Rows:
    """A row for each consumer that was connected in the reported range."""
    found = context.found
    dispatcher, counts = found.dispatcher, found.dispatcher.counts
    shares = found.membership.owners.epochs.shares.of_all()
    read_before = positions_at_joins(dispatcher.seen, "dispatched_at_join")
    total = sum(dispatched for dispatched, _ in counts.values())
    rows: Rows = []
    episodes = chosen(found.episodes, found.episodes.to_seq > found.report_range.since.seq)
    by_holder = {holder: chosen(episodes, episodes.holder == holder) for holder in set(episodes.holder.tolist())}
    by_none = _draining(chosen(episodes, episodes.holder == NOBODY), context)
    for number, stay in found.membership.stays.items():
        dispatched, acked = counts[number]
        gone = stay.left is not None and stay.left.seq <= found.report_range.since.seq
        if gone and not dispatched and not acked:
            continue  # an earlier window has reported it
        index = dispatcher.consumers.of[number]
        rows.append(
            {
                "consumer": number,
                "consumer_name": stay.row.name,
                "joined_at_us": None if stay.joined is None or stay.unseen else stay.joined.ts_us,
                "left_at_us": None if stay.left is None else stay.left.ts_us,
                "leave_reason": stay.leave_reason or None,
                "dispatched": dispatched,
                "acked": acked,
                "hash_share": shares.get(number),
                "traffic_share": dispatched / total if total else None,
                **(_draining(by_holder[index], context) if index in by_holder else by_none),
                "readPositionWhenJoining": _written(found.snapshots.joined_at.get(number)),
                "last_sent_position_when_joining": _written(read_before[index]),
                "consumersAfterMarkDeletePosition": _written(found.monitor.recent.held_from.get(index)),
            }
        )
    return rows


def _draining(episodes: Records, context: FindingContext) -> dict[str, object]:
    """The statistics of PIP-379 for the hashes that one consumer drained, from its episodes."""
    # Without #24736 the broker forgets a hash that returned when it next sends something of it, and counts nothing.
    counts_returns = not context.bugs_with("counted_as_draining_again")
    of: Any = episodes.view(np.ndarray)  # a record array looks up each name in Python
    # If the hash returned and the holder kept it, the time in which it was away is an episode by itself.
    of = of[of["returned_seq"] == UNKNOWN]
    is_open = of["ended_by"] == By.OPEN
    held = of["held_at_end"][is_open].tolist()
    cleared = ~is_open & (of["ended_by"] != By.RESET) & context.found.report_range.holds(of["to_seq"])
    cleared &= counts_returns | (of["ended_by"] != By.RETURNED)
    most = _most_at_once(of["away_seq"], of["to_seq"])
    return {
        "drainingHashesCount": len(held),
        "drainingHashesClearedTotal": int(np.count_nonzero(cleared)),
        "drainingHashesUnackedMessages": sum(held),
        "drainingHashes": [f"{h} ({entries(n)})" for h, n in zip(of["hash"][is_open].tolist(), held, strict=True)],
        "draining_hashes_max": most,
        "draining_bytes_max": most * _BYTES_A_HASH,
    }


def _most_at_once(begins: Ints, ends: Ints) -> int:
    seqs, steps = np.concatenate((begins, ends)), np.repeat((1, -1), ends.size)
    # At the same row ends count before beginnings.
    return int(np.cumsum(steps[np.lexsort((steps, seqs))]).max(initial=0))


def _written(at: Sequence[int] | None) -> str | None:
    return None if at is None else position(at[0], at[1])


def producers(sent: Producers) -> Rows:
    """A row for each producer of the topic."""
    return [
        {
            "producer_name": producer.producer,
            "entries": producer.entries,
            "messages": producer.messages,
            "batches": producer.batches,
            "batches_inspected": producer.batches_inspected,
            "mixed_batches": producer.mixed_batches,
            "keyless_entries": producer.keyless,
            "chunked_entries": producer.chunked,
        }
        for producer in sent.all()
        if producer.entries
    ]


def hot_keys(found: ReplayResult, each_max: int) -> Rows:
    """A row for each hot key, and for each hot hash without a hot key.

    Hot keys are the `each_max` most dispatched; hot hashes are the `each_max` highest by dispatches, by pending entries
    at one time and by blocked time. A hot hash without a hot key is represented by its most dispatched key.
    """
    traffic, peak = found.dispatcher.traffic, found.dispatcher.peaks.all()
    keys, hashes, error = traffic.keys.counts(), traffic.hashes.counts(), traffic.keys.error_max
    blocked = blocked_seconds(found)
    peaks = dict(zip(peak.hash.tolist(), peak.entries.tolist(), strict=True))
    at_keys = set(_most(keys, each_max).tolist())
    shown = {int(keys.group[at]) for at in at_keys}
    by_traffic = hashes.group[_most(hashes, each_max)].tolist()
    unkeyed: list[int] = []
    by_peak = peak.hash[np.lexsort((peak.hash, -peak.entries))[:each_max]].tolist()
    longest = sorted((sticky for sticky in blocked if blocked[sticky] > 0), key=lambda h: (-blocked[h], h))[:each_max]
    hot = dict.fromkeys([*by_traffic, *by_peak, *longest])
    others = [sticky for sticky in hot if sticky not in shown]
    bounds = np.searchsorted(keys.group, [others, [sticky + 1 for sticky in others]]).tolist()
    for sticky, first, last in zip(others, *bounds, strict=True):
        if first < last:
            at_keys.add(first + int(np.argmax(keys.times[first:last])))
        else:
            unkeyed.append(sticky)
    shown_keys = keys.rows(np.array(sorted(at_keys), dtype=np.int64))
    shown_keys = shown_keys.rows(np.lexsort((shown_keys.key, shown_keys.group, -shown_keys.times)))
    first, last = np.searchsorted(keys.group, (shown_keys.group, shown_keys.group + 1))
    dispatched = dict(zip(hashes.group.tolist(), hashes.times.tolist(), strict=True))
    of_keys = zip(*(column.tolist() for column in (*shown_keys, last - first)), strict=True)
    # The other hashes had no dispatch, or too few for their keys to be kept.
    of_hashes = ((sticky, None, 0, None, None, 0) for sticky in unkeyed)
    return [
        {
            "sticky_hash": sticky,
            "keys_on_hash": keys_on_hash,
            "hash_dispatched": dispatched.get(sticky, 0),
            "unacked_max": peaks.get(sticky),
            "blocked_seconds": blocked.get(sticky, 0.0),
            "key_id": key_id,
            "ledger_id": ledger,
            "entry_id": entry,
            "dispatched": times,
            "dispatched_error_max": error,
            "dispatched_share": None if key_id is None else times / traffic.dispatched,
        }
        for sticky, key_id, times, ledger, entry, keys_on_hash in chain(of_keys, of_hashes)
    ]


def blocked_seconds(found: ReplayResult) -> dict[int, float]:
    """The seconds in the reported range in which entries waited, by hash; simultaneous causes count once."""
    since_us, until_us = found.report_range.since.ts_us, found.report_range.until.ts_us
    intervals: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for blocked in found.monitor.blocked:
        if blocked.scope == "hash":
            intervals[blocked.hash].append((blocked.span.from_ts, blocked.span.to_ts))
    for episode in plain(chosen(found.episodes, found.episodes.awaited > 0), KernelEpisode):
        intervals[episode.hash].append((episode.blocked_ts, episode.to_ts))
    reported = {h: [(max(a, since_us), min(b, until_us)) for a, b in waits] for h, waits in intervals.items()}
    return {sticky: covered_us(waits) / 1e6 for sticky, waits in reported.items()}


def covered_us(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of the union of the intervals."""
    covered, until = 0, 0
    for start, end in sorted(intervals):
        covered += max(end - max(start, until), 0)
        until = max(until, end)
    return covered


def _most(counts: KeyCounts, number: int) -> Ints:
    order: Ints = np.lexsort((counts.key, counts.group, -counts.times))[:number]
    return order
