"""Rows of `blocking`, intervals in which entries waited and why (Q8 to Q14), and `draining` (PIP-379; Q3, Q16)."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.stalls.gates import GATES
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.output import BY_RETURN, ENDINGS, STILL_OPEN, KernelEpisode
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, plain
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.naming import Names, Rows, or_none, position
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import hang_in, spoken

_CLAUSES_OF_ALL: Mapping[str, str] = MappingProxyType(
    {
        **{gate.cause.word: gate.because for gate in GATES},
        Cause.NO_PERMITS.word: "{unavailable} had no permits left",
        Cause.UNACKED_LIMIT_CONSUMER.word: (
            "{unavailable} had reached the limit of unacknowledged messages of a consumer"
        ),
        Cause.NACK_DELAY.word: "a redeliver request had returned them and they were not replayed yet",
        Cause.REPLAY_QUEUE.word: "they were read before and were still in the replay queue",
        Cause.DELAYED_DELIVERY.word: "the producer had asked for a delay",
        Cause.NOT_READ_YET.word: "the broker had not read that far yet",
        Cause.OVERDUE.word: "the delay that the producer had asked for was over and the broker did not send them",
        Cause.DRAINING.word: "their hashes were draining from {blocking}",
        Cause.UNEXPLAINED.word: "of a reason that the trace does not show",
        Cause.DISPATCH_RATE_LIMIT.word: "the dispatch rate was limited{limit}",
    }
)
"""The clause for each cause, after "because"; the fields in braces are consumers, or the limit in words."""

_CLAUSES: Mapping[str, str] = MappingProxyType(
    {
        **_CLAUSES_OF_ALL,
        Cause.RECENTLY_JOINED.word: (
            "{consumer} had joined recently and got no new entries while {holder} (known bug F5)"
        ),
    }
)
"""The clauses for intervals of one consumer, or of one hash."""

# The most hashes of a consumer that a sentence names; those that waited most come first.
_HASHES_MAX = 5


def blocking(context: FindingContext) -> Rows:
    """A row for each interval in which entries waited, in the order of their beginnings."""
    names = context.names
    rows = [_row(*_explained(interval, context), names) for interval in context.reported_waits]
    for episode in plain(context.found.reported_waits_for_draining, KernelEpisode):
        waited = _waited_for_draining(episode)
        rows.append(_row(waited, _drained(waited, episode.held_at_start, names), names))
    return sorted(rows, key=lambda row: (row["from_seq"], row["scope"], row["cause"]))


def _row(interval: Blocked, explanation: str, names: Names) -> dict[str, Any]:
    bounds, is_open = interval.span, interval.span.ended_by == STILL_OPEN
    detail = dict(interval.detail)
    if interval.scope == "subscription":
        detail["consumer"] = names.number(interval.blocking)
    return {
        "scope": interval.scope,
        "cause": interval.cause,
        "sticky_hash": or_none(interval.hash),
        "consumer": names.number(interval.consumer),
        "consumer_name": names.name(interval.consumer),
        "blocking_consumer": names.number(interval.blocking),
        "blocking_consumer_name": names.name(interval.blocking),
        "from_seq": bounds.from_seq,
        "to_seq": None if is_open else bounds.to_seq,
        "from_ts_us": bounds.from_ts,
        "to_ts_us": None if is_open else bounds.to_ts,
        "entries_waiting": interval.entries,
        "message_seconds": interval.waited_us / 1e6,
        "root_positions": [position(*root) for root in interval.roots],
        "ended_by": None if is_open else ENDINGS[bounds.ended_by],
        "detail": json.dumps(detail) if detail else None,
        "explanation": explanation,
    }


def _explained(interval: Blocked, context: FindingContext) -> tuple[Blocked, str]:
    """An interval with its explanation; what only a hang of the broker explains has that as its cause."""
    hang = hang_in(interval.span, context) if interval.cause == Cause.UNEXPLAINED.word else None
    if hang is None:
        return interval, _explanation(interval, context.names)
    return interval._replace(cause=Cause.BROKER_HUNG.word), _explanation(interval, context.names, spoken(hang))


def _explanation(interval: Blocked, names: Names, otherwise: str = "") -> str:
    seconds = (interval.span.to_ts - interval.span.from_ts) / 1e6
    cost = _cost(interval.entries, interval.waited_us / 1e6)
    # For a single hash there may be no blocking consumer: then the owner itself was unavailable.
    has_blocking = interval.blocking != NOBODY
    why = otherwise or (_CLAUSES_OF_ALL if interval.scope == "subscription" else _CLAUSES)[interval.cause].format(
        consumer=names.spoken(interval.consumer),
        blocking=names.spoken(interval.blocking),
        unavailable=names.spoken(interval.blocking if has_blocking else interval.consumer),
        holder=f"{names.spoken(interval.blocking)} held older ones"
        if has_blocking
        else "older ones were not acknowledged",
        limit=_limit(interval.detail),
    )
    if interval.scope != "subscription":
        subject = (
            f"entries of hash {interval.hash}"
            if interval.scope == "hash"
            else f"entries for {names.spoken(interval.consumer)}"
        )
        return f"{subject} waited for {seconds:.3f} s, because {why}; {cost}"
    detail = interval.detail
    permits = "" if detail["with_permits"] is None else f", {detail['with_permits']} with permits"
    connected = f"{count(detail['consumers'], 'consumer')} connected{permits}"
    blame = ""
    if interval.cause == Cause.UNEXPLAINED.word and interval.blocking != NOBODY:
        blame = f"; the last dispatch to {names.spoken(interval.blocking)} had not reached its connection"
    elif interval.blocking != NOBODY and detail["waiting_for_it"]:
        waiting = entries(detail["waiting_for_it"])
        blame = f"; {waiting} waited for {names.spoken(interval.blocking)}{_hashes(interval)}"
    return f"no progress for any consumer ({connected}) for {seconds:.3f} s, because {why}{blame}; {cost}"


def _limit(detail: Mapping[str, Any]) -> str:
    """The limit of the dispatch rate, after "limited"; empty for another cause."""
    if "shown_by" in detail:
        return f" to about {count(detail['messages'], 'message')} at a time, as shown by {detail['shown_by']}"
    limits = [
        count(detail[f"limit_{of}"], noun)
        for of, noun in (("messages", "message"), ("bytes", "byte"))
        if detail.get(f"limit_{of}")
    ]
    if not limits:
        return ""
    where = f"for the {detail['limit_scope']}"
    return f" to {' and '.join(limits)} in {detail['period_s']} s {where} ({detail['claimed_by']})"


def _cost(waiting: int, message_seconds: float) -> str:
    return f"{entries(waiting)} waited, {message_seconds:.3f} message-seconds in total"


def _hashes(interval: Blocked) -> str:
    hashes = interval.detail.get("hashes")
    if not isinstance(hashes, list) or not hashes:
        return ""
    noun = "hash" if len(hashes) == 1 else "hashes"
    more = ", ..." if len(hashes) > _HASHES_MAX else ""
    return f" ({noun} {', '.join(map(str, hashes[:_HASHES_MAX]))}{more})"


def _waited_for_draining(episode: KernelEpisode) -> Blocked:
    """The interval in which entries of a draining hash had to wait.

    It ends when the hash stops draining, or returns to its holder, because it then blocks no consumer.
    """
    to_seq, to_ts, ended_by = episode.to_seq, episode.to_ts, episode.ended_by
    if episode.returned_seq != UNKNOWN:
        to_seq, to_ts, ended_by = episode.returned_seq, episode.returned_ts, BY_RETURN
    return Blocked(
        scope="hash",
        cause=Cause.DRAINING.word,
        hash=episode.hash,
        consumer=episode.new_owner,
        blocking=episode.holder,
        span=Interval(episode.blocked_seq, episode.blocked_ts, to_seq, to_ts, ended_by),
        entries=episode.awaited,
        waited_us=episode.waited_us,
        roots=((episode.root_ledger, episode.root_entry),),
        detail={},
    )


def _drained(interval: Blocked, held: int, names: Names) -> str:
    """The explanation of a wait for a hash whose holder had `held` entries pending when it moved away."""
    oldest = position(*interval.roots[0])
    pending = f"entry {oldest} of it" if held == 1 else f"{entries(held)} of it, the oldest {oldest}"
    return (
        f"hash {interval.hash} moved to {names.spoken(interval.consumer)}, but {names.spoken(interval.blocking)} still "
        f"held {pending}; {_cost(interval.entries, interval.waited_us / 1e6)}"
    )


def draining(context: FindingContext) -> Rows:
    """A row for each draining episode, from the move of a hash until its holder has no pending entry of it."""
    found, names = context.found, context.names
    rows: Rows = []
    for episode in plain(found.reported_drainings, KernelEpisode):
        is_open = episode.ended_by == STILL_OPEN
        rows.append(
            {
                "sticky_hash": episode.hash,
                "holder": names.number(episode.holder),
                "holder_name": names.name(episode.holder),
                "new_owner": names.number(episode.new_owner),
                "new_owner_name": names.name(episode.new_owner),
                "from_seq": episode.from_seq,
                "to_seq": None if is_open else episode.to_seq,
                "from_ts_us": episode.from_ts,
                "to_ts_us": None if is_open else episode.to_ts,
                "entries_at_start": episode.held_at_start,
                "blocked_attempts": found.snapshots.blocked_attempts.within(
                    episode.holder, episode.hash, episode.from_seq, episode.to_seq
                ),
                "returned_seq": or_none(episode.returned_seq),
                "returned_ts_us": or_none(episode.returned_ts),
                "ended_by": None if is_open else ENDINGS[episode.ended_by],
            }
        )
    return rows
