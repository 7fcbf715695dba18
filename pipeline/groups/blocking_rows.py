"""Rows of `blocking`, `draining` and `capacity`.

They have the intervals in which entries waited and why (Q8 to Q14), those in which hashes drained (PIP-379; Q3, Q16),
and the distance to the limits with the time until they would be reached (Q20, Q21).
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final

from dispatch_audit.pipeline.groups.columns import Rows
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample
from dispatch_audit.pipeline.replay.blocking.stalls.gates import GATES
from dispatch_audit.pipeline.replay.state.output import ENDINGS, By, KernelEpisode
from dispatch_audit.pipeline.replay.state.records import NOBODY, plain
from dispatch_audit.pipeline.replay.state.values import Cause
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import Names, or_none, position
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import hang_in, spoken

# The clause for each cause, after "because"; the fields in braces are consumers, or the limit in words.
_CLAUSES: Final[Mapping[str, str]] = {
    **{gate.cause.word: gate.because for gate in GATES},
    Cause.NO_PERMITS.word: "{unavailable} had no permits left",
    Cause.UNACKED_LIMIT_CONSUMER.word: "{unavailable} had reached the limit of unacknowledged messages of a consumer",
    Cause.NACK_DELAY.word: "a redeliver request had returned them and they were not replayed yet",
    Cause.REPLAY_QUEUE.word: "they were read before and were still in the replay queue",
    Cause.DELAYED_DELIVERY.word: "the producer had asked for a delay",
    Cause.NOT_READ_YET.word: "the broker had not read that far yet",
    Cause.OVERDUE.word: "the delay that the producer had asked for was over and the broker did not send them",
    Cause.DRAINING.word: "their hashes were draining from {blocking}",
    Cause.UNEXPLAINED.word: "of a reason that the trace does not show",
    Cause.DISPATCH_RATE_LIMIT.word: "the dispatch rate was limited{limit}",
}
# For an interval of one consumer, or of one hash.
_HELD_BACK: Final = "{consumer} had joined recently and got no new entries while {holder} (known bug F5)"

# The most hashes of a consumer that a sentence names; those that waited most come first.
_HASHES_MAX: Final = 5


def blocking(context: FindingContext) -> Rows:
    """A row for each interval in which entries waited, in the order of their beginnings."""
    names = context.names
    waits = (_explained(interval, context) for interval in context.reported_waits)
    drained = (_drained(e, names) for e in plain(context.found.reported_waits_for_draining, KernelEpisode))
    rows = [_row(interval, explanation, names) for interval, explanation in chain(waits, drained)]
    return sorted(rows, key=lambda row: (row["from_seq"], row["scope"], row["cause"]))


def _row(interval: Blocked, explanation: str, names: Names) -> dict[str, Any]:
    detail = dict(interval.detail)
    if interval.scope == "subscription":
        detail["consumer"] = names.number(interval.blocking)
    return {
        "scope": interval.scope,
        "cause": interval.cause,
        "sticky_hash": or_none(interval.hash),
        **names.columns("consumer", interval.consumer),
        **names.columns("blocking_consumer", interval.blocking),
        **_bounds(interval.span),
        "entries_waiting": interval.entries,
        "message_seconds": interval.waited_us / 1e6,
        "root_positions": [position(*root) for root in interval.roots],
        "detail": json.dumps(detail) if detail else None,
        "explanation": f"{explanation}; {entries(interval.entries)} waited, {interval.waited_us / 1e6:.3f} "
        "message-seconds in total",
    }


def _bounds(span: Interval) -> dict[str, Any]:
    """The columns with the bounds of an interval; one that is still open has no end."""
    is_open = span.ended_by == By.OPEN
    return {
        "from_seq": span.from_seq,
        "to_seq": None if is_open else span.to_seq,
        "from_ts_us": span.from_ts,
        "to_ts_us": None if is_open else span.to_ts,
        "ended_by": None if is_open else ENDINGS[span.ended_by],
    }


def _explained(interval: Blocked, context: FindingContext) -> tuple[Blocked, str]:
    """An interval with its explanation; what only a hang of the broker explains has that as its cause."""
    names, detail, of_all = context.names, interval.detail, interval.scope == "subscription"
    consumer, blocking = names.spoken(interval.consumer), names.spoken(interval.blocking)
    # For a single hash there may be no blocking consumer: then the owner itself was unavailable.
    has_blocking, is_unexplained = interval.blocking != NOBODY, interval.cause == Cause.UNEXPLAINED.word
    seconds = (interval.span.to_ts - interval.span.from_ts) / 1e6
    hang = hang_in(interval.span, context) if is_unexplained else None
    held_back = interval.cause == Cause.RECENTLY_JOINED.word and not of_all
    why = (_HELD_BACK if held_back else _CLAUSES[interval.cause]).format(
        consumer=consumer,
        blocking=blocking,
        unavailable=blocking if has_blocking else consumer,
        holder=f"{blocking} held older ones" if has_blocking else "older ones were not acknowledged",
        limit=_limit(detail),
    )
    if hang is not None:
        interval, why = interval._replace(cause=Cause.BROKER_HUNG.word), spoken(hang)
    if not of_all:
        of_whom = f"of hash {interval.hash}" if interval.scope == "hash" else f"for {consumer}"
        return interval, f"entries {of_whom} waited for {seconds:.3f} s, because {why}"
    permits = "" if detail["with_permits"] is None else f", {detail['with_permits']} with permits"
    connected = f"{count(detail['consumers'], 'consumer')} connected{permits}"
    blame = ""
    if has_blocking and is_unexplained and hang is None:
        blame = f"; the last dispatch to {blocking} had not reached its connection"
    elif has_blocking and detail["waiting_for_it"]:
        hashes = detail.get("hashes") or ()
        named = ", ".join(map(str, hashes[:_HASHES_MAX])) + (", ..." if len(hashes) > _HASHES_MAX else "")
        listed = f" ({'hash' if len(hashes) == 1 else 'hashes'} {named})" if hashes else ""
        blame = f"; {entries(detail['waiting_for_it'])} waited for {blocking}{listed}"
    return interval, f"no progress for any consumer ({connected}) for {seconds:.3f} s, because {why}{blame}"


def _limit(detail: Mapping[str, Any]) -> str:
    """The limit of the dispatch rate, after "limited"; empty for another cause."""
    if "shown_by" in detail:
        return f" to about {count(detail['messages'], 'message')} at a time, as shown by {detail['shown_by']}"
    limits = ((detail.get(f"limit_{noun}s"), noun) for noun in ("message", "byte"))
    said = " and ".join(count(limit, noun) for limit, noun in limits if limit)
    where = f"for the {detail['limit_scope']} ({detail['claimed_by']})" if said else ""
    return said and f" to {said} in {detail['period_s']} s {where}"


def _drained(episode: KernelEpisode, names: Names) -> tuple[Blocked, str]:
    """The interval in which entries of a draining hash had to wait, and its explanation."""
    root, held = (episode.root_ledger, episode.root_entry), episode.held_when_away
    waited = Blocked(
        scope="hash",
        cause=Cause.DRAINING.word,
        hash=episode.hash,
        consumer=episode.new_owner,
        blocking=episode.holder,
        span=Interval(episode.blocked_seq, episode.blocked_ts, episode.to_seq, episode.to_ts, episode.ended_by),
        entries=episode.awaited,
        waited_us=episode.waited_us,
        roots=(root,),
        detail={},
    )
    pending = f"entry {position(*root)} of it" if held == 1 else f"{entries(held)} of it, the oldest {position(*root)}"
    owner, holder = names.spoken(episode.new_owner), names.spoken(episode.holder)
    return waited, f"hash {episode.hash} moved to {owner}, but {holder} still held {pending}"


def draining(context: FindingContext) -> Rows:
    """A row for each draining episode, from the move of a hash until its holder has no pending entry of it."""
    names, blocked_attempts = context.names, context.found.snapshots.blocked_attempts
    return [
        {
            "sticky_hash": episode.hash,
            **names.columns("holder", episode.holder),
            **names.columns("new_owner", episode.new_owner),
            **_bounds(Interval(episode.from_seq, episode.from_ts, episode.to_seq, episode.to_ts, episode.ended_by)),
            "entries_at_start": episode.held_at_start,
            "blocked_attempts": blocked_attempts.within(episode.holder, episode.hash, episode.from_seq, episode.to_seq),
            "returned_seq": or_none(episode.returned_seq),
            "returned_ts_us": or_none(episode.returned_ts),
        }
        for episode in plain(context.found.reported_drainings, KernelEpisode)
    ]


def capacity(samples: Sequence[Sample]) -> Rows:
    """A row for each interval between two samples."""
    rows: Rows = []
    for before, after in pairwise(samples):
        seconds = (after.ts_us - before.ts_us) / 1e6
        if seconds <= 0:
            continue  # the wall clock stepped back
        growth = (after.replay_size - before.replay_size) / seconds
        limit = after.look_ahead_limit
        headroom = None if limit is None else limit - after.replay_size
        # The time until normal reads stop if the growth continues; None: they do not stop.
        seconds_left = None
        if headroom is not None and (headroom <= 0 or growth > 0):
            seconds_left = headroom / growth if headroom > 0 else 0.0
        rows.append(
            {
                "from_ts_us": before.ts_us,
                "to_ts_us": after.ts_us,
                "consumers": after.consumers,
                "replay_size": after.replay_size,
                "replay_size_reported": after.reported,
                "look_ahead_limit": limit,
                "headroom": headroom,
                "growth_per_second": growth,
                "seconds_left": seconds_left,
                "ack_holes": after.ack_holes,
                "ack_holes_limit": after.ack_holes_max or None,
                "mark_delete_gap": after.mark_delete_gap,
                "waiting": after.waiting,
            }
        )
    return rows
