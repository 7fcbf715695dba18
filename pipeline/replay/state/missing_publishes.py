"""Entries that others speak of and whose publish never showed: sent before the trace began, or lost from it.

A publish may be recorded after the dispatch of its entry (contract 10.3), so such an entry is counted when it is
first spoken of, and taken back when its publish comes. Positions between two publishes that were seen are taken to be
published too: what mark-delete has passed is forgotten, and comes again after a seek.
"""

from pipeline.replay.state.compiled import compiled
from pipeline.replay.state.state import (
    UNKNOWN,
    UNPUBLISHED,
    State,
)


@compiled
def note_published(state: State, ledger: int, entry: int) -> None:
    """The publish of a position is in the trace."""
    common = state.common
    first = (common[0].first_published_ledger, common[0].first_published_entry)
    if common[0].first_published_ledger == UNKNOWN or (ledger, entry) < first:
        common[0].first_published_ledger = ledger
        common[0].first_published_entry = entry
    if (ledger, entry) > (common[0].last_published_ledger, common[0].last_published_entry):
        common[0].last_published_ledger = ledger
        common[0].last_published_entry = entry


@compiled
def note_spoken_of(state: State, slot: int) -> None:
    """A new entry is known by another row than its publish."""
    entries, common = state.entries, state.common
    at = (entries[slot].ledger, entries[slot].entry)
    first = (common[0].first_published_ledger, common[0].first_published_entry)
    last = (common[0].last_published_ledger, common[0].last_published_entry)
    if common[0].first_published_ledger == UNKNOWN or at < first or at > last:
        entries[slot].marks |= UNPUBLISHED
        common[0].without_publish += 1


@compiled
def take_back(state: State, slot: int) -> None:
    """The publish of an entry came late."""
    if state.entries[slot].marks & UNPUBLISHED != 0:
        state.entries[slot].marks &= ~UNPUBLISHED
        state.common[0].without_publish -= 1
