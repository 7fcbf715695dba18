"""What rows of settings leave open: when delayed delivery was switched on, and the kind of a new dispatcher.

A recorder that looks at the settings from time to time writes between which rows delayed delivery was switched on.
From the first of them on the broker may delay what asks for it, and send what comes later (E2).
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting, SettingsInForce
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.records import Records


@checkpointed("switched_on")
class _SwitchedOn(NamedTuple):
    """Delayed delivery may have been on since a row, before the row that says so."""

    after_seq: int
    before_seq: int
    ts_us: int


@checkpointed("delay_evidence")
@dataclass(eq=False, slots=True)
class DelayEvidence:
    """What rows say of when delayed delivery was switched on in one subscription."""

    _switched_on: list[_SwitchedOn] = field(default_factory=list)

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


def may_be_other(in_force: SettingsInForce, profile: Profile) -> bool:
    """Whether rows say another kind at the creation of a dispatcher than the profile has.

    The first consumer after none may find the former dispatcher, which keeps its kind; only after an unload is
    there certainly a new one. So the kind stays open from here on, even if rows have the former value again.
    """
    said = [setting for setting in in_force.possible(CLASSIC_SETTING) if setting.said_by_row]
    there_are_two = profile.classic or profile.has_classic
    return there_are_two and any((setting.value is True) != profile.classic for setting in said)
