"""Rows of `draining`: the draining hashes (PIP-379)."""

from dispatch_audit.pipeline.replay.state.output import ENDINGS, STILL_OPEN
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.naming import Names, Rows, or_none


def draining(topic: str, subscription: str, found: ReplayResult) -> Rows:
    """A row for each draining episode: from the move of a hash until its holder has no pending entry of it."""
    names = Names(found.numbers, found.stays, found.recorders)
    rows: Rows = []
    for episode in found.reported_drainings:
        is_open = bool(episode.ended_by == STILL_OPEN)
        rows.append(
            {
                "topic": topic,
                "subscription": subscription,
                "sticky_hash": int(episode.hash),
                "holder": names.number(episode.holder),
                "holder_name": names.name(episode.holder),
                "new_owner": names.number(episode.new_owner),
                "new_owner_name": names.name(episode.new_owner),
                "from_seq": int(episode.from_seq),
                "to_seq": None if is_open else int(episode.to_seq),
                "from_ts_us": int(episode.from_ts),
                "to_ts_us": None if is_open else int(episode.to_ts),
                "entries_at_start": int(episode.held_at_start),
                "blocked_attempts": found.blocked_attempts.within(
                    int(episode.holder), int(episode.hash), int(episode.from_seq), int(episode.to_seq)
                ),
                "returned_seq": or_none(episode.returned_seq),
                "returned_ts_us": or_none(episode.returned_ts),
                "ended_by": None if is_open else ENDINGS[episode.ended_by],
            }
        )
    return rows
