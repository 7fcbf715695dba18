"""Rows of `draining` and `blocking`."""

import numpy as np

from pipeline.replay.output import ENDINGS, STILL_OPEN
from pipeline.replay.rows.names import Names, Rows, or_none, position
from pipeline.replay.state import UNKNOWN, Records
from pipeline.replay.subscription import Replayed


def draining(topic: str, subscription: str, found: Replayed) -> Rows:
    """A row for each draining episode: from the move of a hash until its holder holds nothing of it any more."""
    names = Names(found.numbers, found.stays)
    rows: Rows = []
    for episode in _by_start(found.episodes):
        is_open = episode.ended_by == STILL_OPEN
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
                "returned_seq": or_none(episode.returned_seq),
                "returned_ts_us": or_none(episode.returned_ts),
                "ended_by": None if is_open else ENDINGS[episode.ended_by],
            }
        )
    return rows


def blocking(topic: str, subscription: str, found: Replayed) -> Rows:
    """A row for each hash that entries had to wait for because it was draining (Q8, Q9, Q11).

    The interval begins when the first of them had to, and ends with the draining, or when the hash went back to its
    holder, who blocks nobody then.
    """
    names = Names(found.numbers, found.stays)
    rows: Rows = []
    for episode in _by_start(found.episodes[found.episodes.awaited > 0]):
        to_seq, to_ts, ended_by = int(episode.to_seq), int(episode.to_ts), ENDINGS[episode.ended_by]
        if episode.returned_seq != UNKNOWN:
            to_seq, to_ts, ended_by = int(episode.returned_seq), int(episode.returned_ts), "returned"
        is_open = ended_by == ENDINGS[STILL_OPEN]
        root = position(episode.root_ledger, episode.root_entry)
        seconds = float(episode.waited_us) / 1e6
        rows.append(
            {
                "scope": "hash",
                "cause": "draining",
                "topic": topic,
                "subscription": subscription,
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
                "explanation": (
                    f"hash {episode.hash} moved to {names.spoken(episode.new_owner)}, but "
                    f"{names.spoken(episode.holder)} still held {episode.held_at_start} of its entries, the oldest "
                    f"{root}; {episode.awaited} waited, {seconds:.3f} message-seconds in all"
                ),
            }
        )
    return rows


def _by_start(episodes: Records) -> Records:
    return episodes[np.lexsort((episodes.hash, episodes.from_seq))].view(np.recarray)
