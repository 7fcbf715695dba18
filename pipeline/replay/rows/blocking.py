"""Rows of `blocking`: who waited for whom, where, why and for how long (Q8 to Q14)."""

import json

from pipeline.replay.blocking.attribution import Blocked
from pipeline.replay.blocking.causes import CLAUSES, DRAINING, NAMES
from pipeline.replay.state.output import ENDINGS, STILL_OPEN
from pipeline.replay.state.state import NOBODY, UNKNOWN
from pipeline.replay.subscription.result import ReplayResult
from pipeline.replay.verdicts.naming import Names, Rows, position

# Hashes of a consumer that are named in a sentence, those that waited most.
_HASHES = 5


def blocking(topic: str, subscription: str, found: ReplayResult) -> Rows:
    """A row for each interval in which entries waited, in the order in which they began."""
    names = Names(found.numbers, found.stays, found.recorders)
    waits = (_row(interval, names) for interval in found.reported_waits)
    rows = [*_draining(found, names), *waits]
    where = {"topic": topic, "subscription": subscription}
    return [where | row for row in sorted(rows, key=lambda row: (row["from_seq"], row["scope"], row["cause"]))]


def _row(interval: Blocked, names: Names) -> dict[str, object]:
    span, is_open = interval.span, interval.span.ended_by == STILL_OPEN
    detail = dict(interval.detail)
    if interval.scope == "subscription":
        detail["consumer"] = names.number(interval.blocking)
    return {
        "scope": interval.scope,
        "cause": interval.cause,
        "sticky_hash": None if interval.hash == UNKNOWN else interval.hash,
        "consumer": names.number(interval.consumer),
        "consumer_name": names.name(interval.consumer),
        "blocking_consumer": names.number(interval.blocking),
        "blocking_consumer_name": names.name(interval.blocking),
        "from_seq": span.from_seq,
        "to_seq": None if is_open else span.to_seq,
        "from_ts_us": span.from_ts,
        "to_ts_us": None if is_open else span.to_ts,
        "entries_waiting": interval.entries,
        "message_seconds": interval.waited_us / 1e6,
        "root_positions": [position(*root) for root in interval.roots],
        "ended_by": None if is_open else ENDINGS[span.ended_by],
        "detail": json.dumps(detail) if detail else None,
        "explanation": _explanation(interval, names),
    }


def _explanation(interval: Blocked, names: Names) -> str:
    seconds = (interval.span.to_ts - interval.span.from_ts) / 1e6
    cost = f"{interval.entries} waited, {interval.waited_us / 1e6:.3f} message-seconds in all"
    # Of the wait of one hash no other consumer may be known that is to blame: its owner was hindered then.
    told = interval.blocking != NOBODY
    why = CLAUSES[NAMES.index(interval.cause)].format(
        consumer=names.spoken(interval.consumer),
        blocking=names.spoken(interval.blocking),
        unavailable=names.spoken(interval.blocking if told else interval.consumer),
        holder=names.spoken(interval.blocking) if told else "another consumer",
    )
    if interval.scope != "subscription":
        whose = (
            f"hash {interval.hash}" if interval.scope == "hash" else f"entries for {names.spoken(interval.consumer)}"
        )
        return f"{whose} waited for {seconds:.3f} s, because {why}; {cost}"
    known, detail = interval.detail.get("with_permits"), interval.detail
    permits = "" if known is None else f", {known} of whom could have been sent something"
    blame = ""
    if interval.blocking != NOBODY:
        blame = f"; {detail['waiting_for_it']} entries waited for {names.spoken(interval.blocking)}{_hashes(interval)}"
    return (
        f"no progress for any of {detail['consumers']} consumers{permits}, for {seconds:.3f} s, because {why}{blame}; "
        f"{cost}"
    )


def _hashes(interval: Blocked) -> str:
    found = interval.detail.get("hashes")
    if not isinstance(found, list) or not found:
        return ""
    more = ", ..." if len(found) > _HASHES else ""
    return f" (hashes {', '.join(str(sticky_hash) for sticky_hash in found[:_HASHES])}{more})"


def _draining(found: ReplayResult, names: Names) -> Rows:
    """A row for each hash that entries had to wait for because it was draining.

    The interval begins when the first of them had to, and ends with the draining, or when the hash went back to its
    holder, who blocks nobody then.
    """
    rows: Rows = []
    for episode in found.reported_waits_for_draining:
        to_seq, to_ts, ended_by = int(episode.to_seq), int(episode.to_ts), ENDINGS[episode.ended_by]
        if episode.returned_seq != UNKNOWN:
            to_seq, to_ts, ended_by = int(episode.returned_seq), int(episode.returned_ts), "returned"
        is_open = ended_by == ENDINGS[STILL_OPEN]
        root = position(episode.root_ledger, episode.root_entry)
        seconds = float(episode.waited_us) / 1e6
        rows.append(
            {
                "scope": "hash",
                "cause": NAMES[DRAINING],
                "sticky_hash": int(episode.hash),
                "consumer": names.number(episode.new_owner),
                "consumer_name": names.name(episode.new_owner),
                "blocking_consumer": names.number(episode.holder),
                "blocking_consumer_name": names.name(episode.holder),
                "from_seq": int(episode.blocked_seq),
                "to_seq": None if is_open else to_seq,
                "from_ts_us": int(episode.blocked_ts),
                "to_ts_us": None if is_open else to_ts,
                "entries_waiting": int(episode.awaited),
                "message_seconds": seconds,
                "root_positions": [root],
                "ended_by": None if is_open else ended_by,
                "detail": None,
                "explanation": (
                    f"hash {episode.hash} moved to {names.spoken(episode.new_owner)}, but "
                    f"{names.spoken(episode.holder)} still held {episode.held_at_start} of its entries, the oldest "
                    f"{root}; {episode.awaited} waited, {seconds:.3f} message-seconds in all"
                ),
            }
        )
    return rows
