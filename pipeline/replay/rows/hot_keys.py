"""Rows of `hot_keys`: the keys and hashes with most dispatches, pending entries or blocked time (Q18)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from dispatch_audit.pipeline.replay.state.output import KernelEpisode
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, chosen, plain
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import KeyCounts
from dispatch_audit.pipeline.replay.verdicts.naming import Rows

_Interval = tuple[int, int]


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
    hot = dict.fromkeys([*by_traffic, *by_peak, *_longest(blocked, each_max)])
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
    dispatched = _times(hashes, [*shown_keys.group.tolist(), *unkeyed])
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
    intervals: defaultdict[int, list[_Interval]] = defaultdict(list)
    for blocked in found.monitor.blocked:
        if blocked.scope == "hash":
            intervals[blocked.hash].append((blocked.span.from_ts, blocked.span.to_ts))
    for episode in plain(chosen(found.episodes, found.episodes.awaited > 0), KernelEpisode):
        until = episode.to_ts if episode.returned_seq == UNKNOWN else episode.returned_ts
        intervals[episode.hash].append((episode.blocked_ts, until))
    reported = {h: [(max(a, since_us), min(b, until_us)) for a, b in waits] for h, waits in intervals.items()}
    return {sticky: covered_us(waits) / 1e6 for sticky, waits in reported.items()}


def covered_us(intervals: Iterable[_Interval]) -> int:
    """The length of the union of the intervals."""
    covered, until = 0, 0
    for start, end in sorted(intervals):
        covered += max(end - max(start, until), 0)
        until = max(until, end)
    return covered


def _most(counts: KeyCounts, number: int) -> Ints:
    order: Ints = np.lexsort((counts.key, counts.group, -counts.times))[:number]
    return order


def _longest(blocked: Mapping[int, float], number: int) -> list[int]:
    return sorted((sticky for sticky in blocked if blocked[sticky] > 0), key=lambda h: (-blocked[h], h))[:number]


def _times(hashes: KeyCounts, wanted: Sequence[int]) -> Mapping[int, int]:
    """The dispatches of some hashes, as far as they were counted."""
    firsts, afters = np.searchsorted(hashes.group, wanted), np.searchsorted(hashes.group, wanted, "right")
    counted = zip(wanted, firsts.tolist(), (firsts < afters).tolist(), strict=True)
    return {sticky: int(hashes.times[at]) for sticky, at, is_counted in counted if is_counted}
