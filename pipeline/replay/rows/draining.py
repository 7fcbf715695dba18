"""Rows of `draining`: the draining hashes (PIP-379; Q3, Q16)."""

from dispatch_audit.pipeline.replay.state.output import ENDINGS, STILL_OPEN, KernelEpisode
from dispatch_audit.pipeline.replay.state.records import plain
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.naming import Rows, or_none


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
