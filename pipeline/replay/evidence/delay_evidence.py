"""Which overtakings are permitted because delayed delivery may have been on before a row says so.

A recorder that looks at the settings from time to time writes between which rows delayed delivery was switched on.
From the first of them on the broker may delay what asks for it, and send what comes later (E2).
"""

from functools import partial
from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Records


@checkpointed("switched_on")
class _SwitchedOn(NamedTuple):
    """Delayed delivery may have been on since a row, before the row that says so."""

    after_seq: int
    before_seq: int
    ts_us: int


@checkpointed("delay_evidence")
class DelayEvidence:
    """What rows say of when delayed delivery was switched on in one subscription."""

    __slots__ = ("_switched_on",)

    def __init__(self) -> None:
        self._switched_on: list[_SwitchedOn] = []

    def look(self, row: SettingsRow, before: Setting, after: Setting) -> None:
        """Notes the time before a row that switches delayed delivery on; `before` and `after` are the setting."""
        if before.value is False and after.value is not False and row.seq_begin < row.seq:
            self._switched_on.append(_SwitchedOn(row.seq_begin, row.seq, row.ts_us))

    def alibis(self) -> list[Alibi]:
        """The older entry may have been delayed by then."""
        return [Alibi("in order", partial(_may_delay, on)) for on in self._switched_on]

    def forget(self, recent_us: int) -> None:
        """Drops what concerns no finding that a later window reports."""
        self._switched_on = [on for on in self._switched_on if on.ts_us > recent_us]


def _may_delay(on: _SwitchedOn, found: Records) -> Mask:
    within: Mask = (found.seq > on.after_seq) & (found.seq < on.before_seq) & (found.other_due_ts > found.ts_us)
    return within
