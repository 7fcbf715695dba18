"""Waits, draining hashes and owners as slices."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from dispatch_audit.pipeline.report.explain_command import explain_consumer_command
from dispatch_audit.pipeline.report.perfetto.tracks import Event, Process, Timeline, Track
from dispatch_audit.pipeline.report.wording import consumer, moment

Row = dict[str, Any]

# More tracks than this nobody scrolls through.
_HASHES: Final = 200
_STILL_OPEN: Final = "still open"


def waits(rows: Sequence[Row], timeline: Timeline, target: str) -> Iterator[Event]:
    """Yields the slices of `blocking`, each on the track of what waited.

    Args:
        rows: of the table.
        timeline: of the run.
        target: where the tables are, for the command that shows what the consumer to blame did.
    """
    for row in rows:
        blocked_by = row["blocking_consumer"]
        args = {
            "cause": row["cause"],
            "blocked_by": None if blocked_by is None else consumer(blocked_by, row["blocking_consumer_name"]),
            "entries_waiting": row["entries_waiting"],
            "message_seconds": row["message_seconds"],
            "oldest_unacknowledged": list(row["root_positions"]),
            "explanation": row["explanation"],
            "explain": _explain(row, target),
        }
        name = row["cause"] if blocked_by is None else f"{row['cause']}: {args['blocked_by']}"
        yield _slice(_waiting(row, timeline), name, "wait", row, args, timeline)


def _waiting(row: Row, timeline: Timeline) -> Track:
    if row["scope"] == "hash":
        return timeline.of_hash(row)
    if row["scope"] == "consumer" and row["consumer"] is not None:
        return timeline.of_waiting_consumer(row)
    return timeline.of_subscription(row)


def _explain(row: Row, target: str) -> str | None:
    for side in ("blocking_consumer", "consumer"):
        if row[side] is not None:
            name = row[f"{side}_name"] or str(row[side])
            return explain_consumer_command(target, name, row["topic"], row["subscription"])
    return None


def draining(rows: Sequence[Row], timeline: Timeline) -> Iterator[Event]:
    """Yields the slices of `draining`, each on the track of its hash."""
    for row in rows:
        holder = consumer(row["holder"], row["holder_name"])
        args = {
            "holder": holder,
            "moves_to": consumer(row["new_owner"], row["new_owner_name"]),
            "entries_at_start": row["entries_at_start"],
        }
        yield _slice(timeline.of_hash(row), f"draining: {holder} holds it", "draining", row, args, timeline)


def _slice(track: Track, name: str, category: str, row: Row, args: dict[str, Any], timeline: Timeline) -> Event:
    ended_by = _STILL_OPEN if row["to_ts_us"] is None else row["ended_by"]
    times = {"ended_by": ended_by, "began": f"{moment(row['from_ts_us'])} UTC"}
    return Event(track, name, category, *timeline.interval(row), {**args, **times})


def owners(rows: Sequence[Row], timeline: Timeline, all_of_them: bool) -> Iterator[Event]:
    """Yields how many hashes each consumer owned, a slice between two changes.

    Args:
        rows: what consumers owned between two changes, in order of time.
        timeline: of the run.
        all_of_them: False: later ones were not read, so the sums are known up to the last of these.
    """
    if not rows:
        return
    known_until = timeline.at(timeline.to_ts_us if all_of_them else rows[-1]["from_ts_us"])
    changes: defaultdict[tuple[Process, int], set[str]] = defaultdict(set)
    moved: defaultdict[Track, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for row in rows:
        track, (begin, length) = timeline.of_consumer(row), timeline.interval(row)
        changes[track.process, begin].add(row["change"])
        for at, sign in ((begin, 1), (begin + length, -1)):
            moved[track][at][0] += sign * row["hashes"]
            moved[track][at][1] += sign * row["undecided"]
    for track, by_time in moved.items():
        hashes = undecided = 0
        for begin, end in pairwise([*sorted(at for at in by_time if at < known_until), known_until]):
            hashes += by_time[begin][0]
            undecided += by_time[begin][1]
            if hashes:
                args = {
                    "hashes": hashes,
                    "hashes_undecided": undecided,
                    "change": ", ".join(sorted(changes[track.process, begin])) or None,
                }
                yield Event(track, f"owns {hashes:,} hashes", "owner", begin, end - begin, args)


def of_costliest_hashes(events: Sequence[Event]) -> list[Event]:
    """Returns the events with the costliest hashes first among the tracks, and without those beyond 200 hashes.

    Args:
        events: waits and draining.
    """
    cost: defaultdict[Track, float] = defaultdict(float)
    for event in events:
        if event.track.is_hash:
            seconds = event.args.get("message_seconds")
            # Of a hash that only drained nothing waited, so that it comes after those that waited.
            cost[event.track] += float(seconds) if isinstance(seconds, float) else 0.0
    costliest = sorted(cost, key=lambda track: (-cost[track], track))[:_HASHES]
    placed = {track: track._replace(place=place) for place, track in enumerate(costliest)}
    return [
        replace(event, track=placed.get(event.track, event.track))
        for event in events
        if not event.track.is_hash or event.track in placed
    ]
