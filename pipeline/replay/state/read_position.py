"""The read position as dispatches show it: waiting entries that were read are in the replay queue.

The broker has read at least up to the highest dispatched position, so `in_replay` is a lower bound of the replay queue.
The read position returns to mark-delete when the last consumer leaves and at a restart (contract 3.5, 3.6).
"""

from typing import Final

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import READ, State

READ_US: Final = 1_000_000
"""How long a read may be in flight: 0.7 to 40 ms were measured (contract 6.6, which allows 1 s)."""


@compiled
def was_read(state: Seen, ledger: int, entry: int) -> bool:
    """Whether the broker has certainly read this position."""
    return bool(
        (ledger, entry) <= (state.common[0].highest_dispatched_ledger, state.common[0].highest_dispatched_entry)
    )


@compiled
def rewind(state: State) -> None:
    """Marks all entries as unread."""
    state.common[0].highest_dispatched_ledger = UNKNOWN
    state.common[0].in_replay = 0
    for slot in range(state.entries.size):
        if state.entries[slot].ledger >= 0:
            state.entries[slot].marks &= ~READ
