"""What the state keeps of traffic: by consumer, the highest position, and entries not sent or not acknowledged."""

import numpy as np

from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of


def sent_before_joins(state: Seen) -> list[Position | None]:
    """By the index of the consumer, the highest position dispatched before it joined; None: none was."""
    return _positions(state, "dispatched_at_join")


def published_before_joins(state: Seen) -> list[Position | None]:
    """By the index of the consumer, the highest position published before it joined; None: none was."""
    return _positions(state, "published_at_join")


def _positions(state: Seen, of: str) -> list[Position | None]:
    return [at if at[0] >= 0 else None for at in state.consumers.view(np.ndarray)[of].tolist()]


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
    found: list[tuple[int, int]] = [common[of].item() for of in ("highest_dispatched", "mark_delete", "last_published")]
    if used.size:
        ledgers: Ints = used["ledger"]
        ledger = int(ledgers.max())
        found.append((ledger, int(used["entry"][ledgers == ledger].max())))
    return max([(-1, -1), *(position for position in found if position[0] != UNKNOWN)])
