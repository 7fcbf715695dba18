"""Collects what the kernel reports until the group ends: here a finding is kept, excused or withdrawn.

The rules report whatever contradicts them at the moment of a dispatch. What a former routing excuses is dropped at
once. Which dispatches never left the broker, and which entries were perhaps not held, only later rows show, so findings
that rest on those are dropped at the end. What is left is weighed in `verdicts`.
"""

from collections.abc import Collection
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.contract.exceptions import ExceptionId
from pipeline.contract.rules import GAP_DELIVERY, NAME_OF, RULES
from pipeline.replay.rules.capped_findings import CappedFindings
from pipeline.replay.rules.permitted import permitted
from pipeline.replay.state.output import EPISODES, FINDINGS, UNSENT, WITHDRAWN, Output
from pipeline.replay.state.policy import Policy
from pipeline.replay.state.state import Ints, Records

_RESTS_ON_ANOTHER = tuple(number for number, name in NAME_OF.items() if RULES[name].on_another)


class OwnerHistory(Protocol):
    """Where hashes went before, and go (`dispatcher.routings`)."""

    def decided_before(self, found: Records, late_us: int) -> NDArray[np.bool_]:
        """Which findings may be dispatches that were decided under a former routing."""

    def served_to(self, hashes: Ints) -> Ints:
        """The consumers that the broker's selector sends these hashes to."""


class FindingCollector:
    """Findings, draining episodes, and what speaks against findings.

    Attributes:
        findings: those kept, and how many were only counted.
    """

    def __init__(self, exceptions: Collection[ExceptionId] = ()) -> None:
        """Takes the exceptions that the broker's profile has."""
        self.findings = CappedFindings()
        self._exceptions = exceptions
        self._episodes: list[Records] = []
        self._unsent: list[Ints] = []
        self._withdrawn: list[Records] = []
        self._without_end_told = 0

    def collect(self, out: Output, routings: OwnerHistory, policy: Policy) -> None:
        """Takes everything out of `out`.

        Args:
            out: what the kernel has reported.
            routings: where hashes went, and go.
            policy: of the subscription, under which that was reported.
        """
        found: Records = out.findings[: out.filled[FINDINGS]].copy()
        found = found[~routings.decided_before(found, policy.unordered_us)].view(np.recarray)
        found.permitted = permitted(found, policy.keeps_order, self._exceptions)
        gaps = found.rule == GAP_DELIVERY
        found.other_consumer[gaps] = routings.served_to(found.hash[gaps])
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
