"""Rows that no recorder wrote, between two terms of a topic: a reset, and the settings of the next owner."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dispatch_audit.pipeline.replay.packing.events import Code
from dispatch_audit.pipeline.replay.packing.membership_rows import RESTARTS, MembershipEvent
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.replay.recorders.one_order import blank, with_settings
from dispatch_audit.pipeline.replay.recorders.recorders import TRANSFER_ROWS, Recorders, Term
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow


class Transfers:
    """Adds a reset between two terms if none is recorded, because the next owner has a new dispatcher.

    It also puts the settings of the next owner in force, which are those that its own recorder has written so far.
    """

    def __init__(self, recorders: Recorders) -> None:
        self._terms = recorders.terms
        self.rows = 0  # the number of rows added so far

    @property
    def places(self) -> int:
        """The number of seqs that are reserved for such rows."""
        return TRANSFER_ROWS * max(len(self._terms) - 1, 0)

    def among(self, batches: Iterable[PackedBatch]) -> Iterator[PackedBatch]:
        """The packed batches of a group, in order, with the resets between them."""
        waiting = list(self._terms[:-1])
        rows: list[MembershipEvent] = []
        settings: list[SettingsRow] = []
        for batch in batches:
            while waiting and waiting[0].last < batch.first_seq:
                term = waiting.pop(0)
                if settings:
                    yield self._settings_again(settings, term, batch)
                if not _is_over([row for row in rows if term.first <= row.seq <= term.last]):
                    self.rows += TRANSFER_ROWS
                    yield _transfer(term, batch)
                rows = [row for row in rows if row.seq > term.last]
            if waiting:
                rows += (row for row in batch.details if isinstance(row, MembershipEvent))
                settings += (row for row in batch.details if isinstance(row, SettingsRow))
            yield batch

    def _settings_again(self, settings: Sequence[SettingsRow], before: Term, batch: PackedBatch) -> PackedBatch:
        """The settings of the next owner, at the place in front of its first row."""
        number = self._terms.index(before) + 1
        following = self._terms[number]
        own = [term for term in self._terms[:number] if term.recorder == following.recorder]
        place, at_us = following.first - 1, before.until_us
        anew = SettingsRow(place, at_us, place, -1, False, False, True, "{}", "{}")
        rows = [row for row in sorted(settings) if any(term.first <= row.seq <= term.last for term in own)]
        again = [row._replace(seq=place, ts_us=at_us, seq_begin=place, shared=False) for row in rows]
        return with_settings(batch, [anew, *again])


def _is_over(rows: Iterable[MembershipEvent]) -> bool:
    """Whether a reset followed the last join of a term."""
    resets = [row.seq for row in rows if row.kind == "reset" and row.late and row.reason in RESTARTS]
    joins = [row.seq for row in rows if row.kind == "join" and row.consumer >= 0]
    return max(resets, default=-1) > max(joins, default=-1)


def _transfer(term: Term, batch: PackedBatch) -> PackedBatch:
    """Both sides of a reset after the last row of a term, in front of the rows of the next packed batch."""
    sides, at_us = np.array([Code.RESET_START, Code.RESET_END]), term.until_us
    seqs = term.last + 1 + np.arange(TRANSFER_ROWS)
    rows = [
        MembershipEvent(int(seq), at_us, "reset", late, -1, "", False, False, (), "transfer")
        for seq, late in zip(seqs, (False, True), strict=True)
    ]
    return batch.having(blank(sides, seqs, np.full(TRANSFER_ROWS, at_us)), rows)
