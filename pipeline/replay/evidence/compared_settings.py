"""The settings that a trace claims, as far as rows and snapshots of the broker confirm or contradict them.

A contradiction is noted once for each setting of a subscription. Rule `settings_mismatch` reports it; the code that
notes it says in `judged` what is judged differently from then on, and does so.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting


@checkpointed("contradiction")
class Contradiction(NamedTuple):
    """A claim that the broker contradicts."""

    claim: Setting  # the setting as the trace or a row has it, or the default of the release
    shown: str  # what the broker shows, as a clause with a subject and a verb
    value: str  # the broker's value, as a sentence names it; empty: another one, which is not known
    at: TracePoint  # the row that completes the evidence
    evidence: tuple[tuple[int, str], ...]  # seq and text of the rows that show it, oldest first; never none
    judged: str  # what is judged differently from then on, as a clause


@checkpointed("compared_settings")
@dataclass(eq=False, slots=True)
class ComparedSettings:
    """The settings of one subscription that were compared with what the broker shows."""

    checked: int = 0  # how many were compared for the first time since the last report
    # The contradictions, by the name of the setting, in the order of the trace.
    found: dict[str, Contradiction] = field(default_factory=dict)
    _compared: set[str] = field(default_factory=set)

    def compared(self, setting: str) -> None:
        """Notes that a setting was compared."""
        if setting not in self._compared:
            self._compared.add(setting)
            self.checked += 1

    def contradict(self, contradiction: Contradiction) -> None:
        """Notes that the broker contradicts a claim; only the first contradiction of a setting counts."""
        self.compared(contradiction.claim.name)
        self.found.setdefault(contradiction.claim.name, contradiction)

    def forget(self) -> None:
        """Restarts the count; what was compared and found stays known, so that no later window reports it again."""
        self.checked = 0
