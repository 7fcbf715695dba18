"""Counts entries without a publish in the trace: published before the trace began, or lost from it.

A publish may be recorded after the dispatch of its entry (contract 10.3), so such an entry is counted at the first row
that names it, and uncounted when its publish comes. Positions between two recorded publishes count as published too:
the state forgets entries that mark-delete has passed, and they may come again after a seek.
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.state import (
    UNKNOWN,
    UNPUBLISHED,
    State,
)


@compiled
def note_published(state: State, ledger: int, entry: int) -> None:
    """Notes that the trace has the publish of a position."""
    common = state.common
    first = (common[0].first_published_ledger, common[0].first_published_entry)
    if common[0].first_published_ledger == UNKNOWN or (ledger, entry) < first:
        common[0].first_published_ledger = ledger
        common[0].first_published_entry = entry
    if (ledger, entry) > (common[0].last_published_ledger, common[0].last_published_entry):
        common[0].last_published_ledger = ledger
        common[0].last_published_entry = entry


@compiled
def note_without_publish(state: State, slot: int) -> None:
    """Counts a new entry that another row than its publish names first."""
    entries, common = state.entries, state.common
    at = (entries[slot].ledger, entries[slot].entry)
    first = (common[0].first_published_ledger, common[0].first_published_entry)
    last = (common[0].last_published_ledger, common[0].last_published_entry)
    if common[0].first_published_ledger == UNKNOWN or at < first or at > last:
        entries[slot].marks |= UNPUBLISHED
        common[0].without_publish += 1


@compiled
def note_late_publish(state: State, slot: int) -> None:
    """Uncounts an entry whose publish came late."""
    if state.entries[slot].marks & UNPUBLISHED != 0:
        state.entries[slot].marks &= ~UNPUBLISHED
        state.common[0].without_publish -= 1
