"""What the core has reported, gathered until the end of a group: only then it is known which of it rests on nothing."""

import numpy as np

from pipeline.contract.rules import NAME_OF, RULES
from pipeline.replay.rules.capped_findings import CappedFindings
from pipeline.replay.state.output import EPISODES, UNSENT, WITHDRAWN, Output
from pipeline.replay.state.state import Ints, Records

_RESTS_ON_ANOTHER = tuple(number for number, name in NAME_OF.items() if RULES[name].on_another)


class FindingCollector:
    """Findings, draining episodes, and what speaks against findings.

    Attributes:
        findings: those kept, and how many were only counted.
    """

    def __init__(self) -> None:
        self.findings = CappedFindings()
        self._episodes: list[Records] = []
        self._unsent: list[Ints] = []
        self._withdrawn: list[Records] = []
        self._without_end_told = 0

    def gather(self, out: Output, found: Records) -> None:
        """Takes everything out of `out`; `found` are the findings in it, completed and without those excused."""
        self.findings.add(found)
        self._episodes.append(out.episodes[: out.filled[EPISODES]].copy())
        self._unsent.append(out.unsent[: out.filled[UNSENT]].copy())
        self._withdrawn.append(out.withdrawn[: out.filled[WITHDRAWN]].copy())
        out.filled[:] = 0

    def forget(self, told_seq: int, recent_us: int, ledgers: Ints, entries: Ints) -> None:
        """Drops what was told, but for what explains what is not.

        Args:
            told_seq: up to which row everything was told.
            recent_us: what is newer explains what comes.
            ledgers: of the entries that are open: what was found of them may explain what comes.
            entries: the other halves of their positions.
        """
        self.findings.forget(told_seq, recent_us, set(zip(ledgers.tolist(), entries.tolist(), strict=True)))
        episodes = self.episodes
        self._episodes = [episodes[(episodes.to_seq > told_seq) | (episodes.to_ts > recent_us)]]
        self._withdrawn = [part[part.since_ts > recent_us] for part in self._withdrawn]
        self._without_end_told += self.without_end

    @property
    def episodes(self) -> Records:
        """The draining that is over, and is not forgotten."""
        found: Records = np.concatenate(self._episodes).view(np.recarray)
        return found

    @property
    def without_end(self) -> int:
        """How many dispatches were not seen to leave the broker."""
        return int(np.unique(np.concatenate(self._unsent)).size) - self._without_end_told

    def taken(self) -> tuple[Records, Records]:
        """Findings and episodes; findings on dispatches that never left the broker are dropped."""
        findings = self.findings.all()
        unsent = np.concatenate(self._unsent)
        certain = ~np.isin(findings.seq, unsent) & ~np.isin(findings.other_seq, unsent)
        for gone in np.concatenate(self._withdrawn).view(np.recarray):
            rests = (findings.other_ledger == gone.ledger) & (findings.other_entry == gone.entry)
            rests &= np.isin(findings.rule, _RESTS_ON_ANOTHER)
            certain &= ~(rests & (findings.ts_us >= gone.since_ts) & (findings.seq < gone.until_seq))
        return findings[certain].view(np.recarray), self.episodes
