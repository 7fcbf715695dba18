"""Entries that others speak of and whose publish never showed: sent before the trace began, or lost from it.

A publish may be recorded after the dispatch of its entry (contract 10.3), so such an entry is counted when it is
first spoken of, and taken back when its publish comes. Positions between two publishes that were seen are taken to be
published too: what mark-delete has passed is forgotten, and comes again after a seek.
"""

from pipeline.replay.state.compiled import compiled
from pipeline.replay.state.state import (
    FIRST_PUBLISHED_ENTRY,
    FIRST_PUBLISHED_LEDGER,
    LAST_PUBLISHED_ENTRY,
    LAST_PUBLISHED_LEDGER,
    UNKNOWN,
    UNPUBLISHED,
    WITHOUT_PUBLISH,
    State,
)


@compiled
def note_published(state: State, ledger: int, entry: int) -> None:
    """The publish of a position is in the trace."""
    cells = state.cells
    first = (cells[FIRST_PUBLISHED_LEDGER], cells[FIRST_PUBLISHED_ENTRY])
    if cells[FIRST_PUBLISHED_LEDGER] == UNKNOWN or (ledger, entry) < first:
        cells[FIRST_PUBLISHED_LEDGER] = ledger
        cells[FIRST_PUBLISHED_ENTRY] = entry
    if (ledger, entry) > (cells[LAST_PUBLISHED_LEDGER], cells[LAST_PUBLISHED_ENTRY]):
        cells[LAST_PUBLISHED_LEDGER] = ledger
        cells[LAST_PUBLISHED_ENTRY] = entry


@compiled
def note_spoken_of(state: State, slot: int) -> None:
    """A new entry is known by another row than its publish."""
    entries, cells = state.entries, state.cells
    at = (entries[slot].ledger, entries[slot].entry)
    first = (cells[FIRST_PUBLISHED_LEDGER], cells[FIRST_PUBLISHED_ENTRY])
    last = (cells[LAST_PUBLISHED_LEDGER], cells[LAST_PUBLISHED_ENTRY])
    if cells[FIRST_PUBLISHED_LEDGER] == UNKNOWN or at < first or at > last:
        entries[slot].marks |= UNPUBLISHED
        cells[WITHOUT_PUBLISH] += 1


@compiled
def take_back(state: State, slot: int) -> None:
    """The publish of an entry came late."""
    if state.entries[slot].marks & UNPUBLISHED != 0:
        state.entries[slot].marks &= ~UNPUBLISHED
        state.cells[WITHOUT_PUBLISH] -= 1
