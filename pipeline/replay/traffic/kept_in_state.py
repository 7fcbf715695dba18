"""What the state keeps of traffic: by consumer, and of entries that were not sent or not acknowledged to the end."""

import numpy as np

from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen


def of_consumers(state: Seen, one: str, other: str) -> list[tuple[int, int]]:
    """Two fields of each consumer, by its index; as columns, because one by one they cost several times as much."""
    consumers = state.consumers.view(np.ndarray)
    return list(zip(consumers[one].tolist(), consumers[other].tolist(), strict=True))


def sent_before_joins(state: Seen) -> list[Position | None]:
    """By the index of the consumer, the highest position dispatched before it joined; None: none was."""
    return [at if at[0] >= 0 else None for at in of_consumers(state, "joined_ledger", "joined_entry")]


def published_before_joins(state: Seen) -> list[Position | None]:
    """By the index of the consumer, the highest position published before it joined; None: none was."""
    of_each = of_consumers(state, "published_at_join_ledger", "published_at_join_entry")
    return [at if at[0] >= 0 else None for at in of_each]


def outstanding(state: Seen) -> tuple[int, int]:
    """The number of entries without a first dispatch, and of those dispatched and not acknowledged."""
    entries = state.entries.view(np.ndarray)
    marks = entries["marks"][entries["ledger"] != UNKNOWN]
    waits = marks & (Mark.WAITING | Mark.SENT | Mark.ACKED) == Mark.WAITING
    unacknowledged = marks & (Mark.SENT | Mark.ACKED) == Mark.SENT
    return int(np.count_nonzero(waits)), int(np.count_nonzero(unacknowledged))
