"""What the state keeps of traffic: by consumer, the highest position, and entries not sent or not acknowledged."""

import numpy as np

from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of


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


def highest_position(state: Seen) -> tuple[int, int]:
    """The highest position that a row has named, as far as the state remembers; (-1, -1): none."""
    common, entries = common_of(state), state.entries.view(np.ndarray)
    used = entries[entries["ledger"] != UNKNOWN]
    found = [(int(common[f"{of}_ledger"]), int(common[f"{of}_entry"])) for of in ("highest_dispatched", "mark_delete")]
    found.append((int(common["last_published_ledger"]), int(common["last_published_entry"])))
    if used.size:
        ledgers: Ints = used["ledger"]
        ledger = int(ledgers.max())
        found.append((ledger, int(used["entry"][ledgers == ledger].max())))
    return max([(-1, -1), *(position for position in found if position[0] != UNKNOWN)])
