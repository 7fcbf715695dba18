"""What the core reports, as records that it fills and the caller empties.

Their arrays have a fixed length. When one is nearly full the core stops in front of an event and says so; the caller
takes what is there and goes on. So findings are never lost and never pile up inside the hot loop.
"""

from typing import Final, NamedTuple

import numpy as np

from pipeline.replay.compiled import compiled
from pipeline.replay.state import Ints, Records

# Rules that one dispatch can break (DESIGN, "Rules").
SINGLE_HOLDER: Final = 0
OWNERSHIP: Final = 1
FIRST_DELIVERY_ORDER: Final = 2
EARLY_DUPLICATE: Final = 3
RULE_NAMES: Final = ("single_holder", "ownership", "first_delivery_order", "early_duplicate")

# What ended a draining episode.
BY_ACK: Final = 0
BY_REDELIVER: Final = 1
BY_LEAVE: Final = 2
BY_MARK_DELETE: Final = 3
BY_RESET: Final = 4
STILL_OPEN: Final = 5
ENDINGS: Final = ("ack", "redeliver", "leave", "mark_delete", "reset", "open")

# More findings or unsent dispatches than this can come from no single event.
PER_EVENT: Final = 4


# A rule that a dispatch broke; `other_*` is the dispatch it collides with, where there is one.
FINDING = np.dtype(
    [
        (name, np.int64)
        for name in (
            "rule",
            "seq",
            "ts_us",
            "ledger",
            "entry",
            "hash",
            "key_id",
            "consumer",
            "other_consumer",
            "other_seq",
            "other_ledger",
            "other_entry",
            "other_key_id",
            "draining",
            "acknowledged",
        )
    ]
)

# A draining episode: a hash that moved away while its holder had entries of it pending.
EPISODE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "hash",
            "holder",
            "new_owner",
            "from_seq",
            "to_seq",
            "from_ts",
            "to_ts",
            "held_at_start",
            "root_ledger",
            "root_entry",
            "returned_seq",
            "returned_ts",
            "ended_by",
            "blocked_seq",
            "blocked_ts",
            "awaited",
            "waited_us",
        )
    ]
)


class Output(NamedTuple):
    """The records and how many of each are filled.

    `unsent` are the dispatches (by the seq of their start) that ended without having reached the connection: a
    finding that rests on one is no finding (TRACE_FORMAT, "Phases"). `withdrawn_*` are dispatches that may not have
    been held any more from a time on.
    """

    findings: Records  # of FINDING
    episodes: Records  # of EPISODE
    unsent: Ints
    withdrawn_seq: Ints
    withdrawn_ts: Ints
    filled: Ints


# Places in `Output.filled`.
FINDINGS: Final = 0
EPISODES: Final = 1
UNSENT: Final = 2
WITHDRAWN: Final = 3


def new_output(findings: int, episodes: int, unsent: int) -> Output:
    """Room for that many of each."""
    return Output(
        findings=np.zeros(findings, dtype=FINDING).view(np.recarray),
        episodes=np.zeros(episodes, dtype=EPISODE).view(np.recarray),
        unsent=np.zeros(unsent, dtype=np.int64),
        withdrawn_seq=np.zeros(findings, dtype=np.int64),
        withdrawn_ts=np.zeros(findings, dtype=np.int64),
        filled=np.zeros(4, dtype=np.int64),
    )


@compiled
def nearly_full(out: Output, hashes: int) -> bool:
    """Whether one more event might not fit; it may end an episode of every hash there is, but only one of each."""
    return bool(
        out.filled[FINDINGS] + PER_EVENT > out.findings.size
        or out.filled[EPISODES] > out.episodes.size - hashes
        or out.filled[UNSENT] + 2 * PER_EVENT > out.unsent.size
        or out.filled[WITHDRAWN] + PER_EVENT > out.withdrawn_seq.size
    )
