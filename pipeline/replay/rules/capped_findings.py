"""The findings of one subscription, kept up to a limit and counted beyond it.

A trace that breaks a rule with every row must not fill the memory, but every finding must count.
"""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.rules import NAME_OF, RULES
from dispatch_audit.pipeline.replay.state.output import FINDING
from dispatch_audit.pipeline.replay.state.records import Records, chosen, together

# The limit for each pair of a rule and an exception that permits its findings: about 250 MB.
KEPT_MAX: Final = 1_000_000

# The limit for facts outside of the contract is smaller, because every row of a trace may be one.
_KEPT_MAX_OF: Mapping[int, int] = {number: 10_000 for number, name in NAME_OF.items() if RULES[name].informs}


@checkpointed("capped_findings")
@dataclass(eq=False, slots=True)
class CappedFindings:
    """Findings in the order in which they were added."""

    _kept_max: int = KEPT_MAX  # of each pair of a rule and an exception; rules that only inform have a smaller limit
    # The number of findings that were not kept, by rule and by the number of the exception that permits them.
    beyond: Counter[tuple[int, int]] = field(default_factory=Counter)
    _counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    _parts: list[Records] = field(default_factory=lambda: [np.empty(0, dtype=FINDING).view(np.recarray)])

    def add(self, found: Records) -> None:
        """Adds findings; their field `permitted` must be filled."""
        if found.size == 0:
            return
        kept = np.ones(found.size, dtype=np.bool_)
        for rule, permitted in {(int(f.rule), int(f.permitted)) for f in np.unique(found[["rule", "permitted"]])}:
            alike = np.flatnonzero((found.rule == rule) & (found.permitted == permitted))
            room = min(self._kept_max, _KEPT_MAX_OF.get(rule, self._kept_max)) - self._counts[rule, permitted]
            self._counts[rule, permitted] += min(alike.size, room)
            if alike.size > room:
                kept[alike[room:]] = False
                self.beyond[rule, permitted] += alike.size - room
        self._parts.append(chosen(found, kept))

    def forget(self, reported_seq: int, recent_us: int, open_entries: Set[tuple[int, int]]) -> None:
        """Drops findings up to a row, except recent ones and those on open entries, and all counts."""
        found = self.all()
        kept = (found.seq > reported_seq) | (found.ts_us > recent_us)
        for ledger, entry in ((found.ledger, found.entry), (found.other_ledger, found.other_entry)):
            positions = zip(ledger.tolist(), entry.tolist(), strict=True)
            kept |= np.fromiter((position in open_entries for position in positions), np.bool_, found.size)
        self._parts = [chosen(found, kept)]
        self._counts.clear()
        self.beyond.clear()

    def all(self) -> Records:
        """All findings that were kept."""
        return together(self._parts)
