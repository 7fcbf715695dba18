"""Collects findings until the group ends.

The rules report every contradiction at the moment of a dispatch. Findings with an alibi that is known by then, a former
routing or an exception, are dropped or marked at once. Only later rows show which dispatches never left the broker and
which entries were perhaps not held, so these alibis are joined at the end. `verdicts` judges what stands.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rules import GAP_DELIVERY
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask, permitted, standing
from dispatch_audit.pipeline.replay.rules.capped_findings import CappedFindings
from dispatch_audit.pipeline.replay.state.output import (
    BY_GAP,
    EPISODE,
    EPISODES,
    FINDINGS,
    STILL_OPEN,
    UNSENT,
    WITHDRAWAL,
    WITHDRAWN,
    Output,
    Withdrawal,
)
from dispatch_audit.pipeline.replay.state.policy import Policy
from dispatch_audit.pipeline.replay.state.records import Ints, Records, chosen, first_of, plain, together
from dispatch_audit.pipeline.replay.state.routings import Routings


@checkpointed("finding_collector")
@dataclass(eq=False, slots=True)
class FindingCollector:
    """Findings, draining episodes, and the records that withdraw findings."""

    _exceptions: Collection[ExceptionId]
    # The findings up to the limits, and the counts beyond.
    findings: CappedFindings = field(default_factory=CappedFindings)
    routings: Routings = field(default_factory=Routings)  # the former and present routings, which explain some findings
    _episodes: list[Records] = field(default_factory=lambda: [np.empty(0, dtype=EPISODE).view(np.recarray)])
    _unsent: list[Ints] = field(default_factory=lambda: [np.empty(0, dtype=np.int64)])
    _withdrawn: list[Records] = field(default_factory=lambda: [np.empty(0, dtype=WITHDRAWAL).view(np.recarray)])
    _without_end_reported: int = 0

    def collect(self, out: Output, policy: Policy) -> None:
        """Takes all reports of the kernel, made under this policy, and empties its output."""
        filled = out.filled.tolist()
        if filled[FINDINGS]:
            former = Alibi("owner", lambda found: self.routings.decided_before(found, policy.unordered_us))
            found = standing(first_of(out.findings, filled[FINDINGS]), [former])
            found.permitted = permitted(found, policy.keeps_order, self._exceptions)
            gaps = found.rule == GAP_DELIVERY
            found.other_consumer[gaps] = self.routings.served_to(found.hash[gaps])
            self.findings.add(found)
        if filled[EPISODES]:
            self._episodes.append(first_of(out.episodes, filled[EPISODES]))
        if filled[UNSENT]:
            self._unsent.append(out.unsent[: filled[UNSENT]].copy())
        if filled[WITHDRAWN]:
            self._withdrawn.append(first_of(out.withdrawn, filled[WITHDRAWN]))
        out.filled[:] = 0

    def forget(self, reported_seq: int, recent_us: int, ledgers: Ints, entries: Ints) -> None:
        """Drops the findings and episodes up to a row, except those that later verdicts may need.

        Kept are those newer than `recent_us`, and findings on open entries, given by their ledgers and entry ids.
        """
        self.findings.forget(reported_seq, recent_us, set(zip(ledgers.tolist(), entries.tolist(), strict=True)))
        episodes = self.episodes
        self._episodes = [chosen(episodes, (episodes.to_seq > reported_seq) | (episodes.to_ts > recent_us))]
        self._withdrawn = [part[part.since_ts > recent_us] for part in self._withdrawn]
        self._without_end_reported += self.without_end

    def end_open_episodes(self) -> None:
        """Ends the open episodes, because the rows that would end them may be missing."""
        for part in self._episodes:
            part.ended_by[part.ended_by == STILL_OPEN] = BY_GAP

    @property
    def episodes(self) -> Records:
        """The reported draining episodes that were not forgotten."""
        return together(self._episodes)

    @property
    def without_end(self) -> int:
        """The number of dispatches without an end, which may not have left the broker."""
        return int(np.unique(np.concatenate(self._unsent)).size) - self._without_end_reported

    def alibis(self) -> list[Alibi]:
        """The alibis that rows have shown so far: dispatches that were never sent, and entries that were withdrawn."""
        unsent = np.concatenate(self._unsent)
        withdrawn = [*plain(together(self._withdrawn), Withdrawal)]

        def names_unsent(found: Records) -> Mask:
            return np.isin(found.seq, unsent) | np.isin(found.other_seq, unsent)

        def on_withdrawn(found: Records) -> Mask:
            covered = np.zeros(found.size, dtype=np.bool_)
            for entry in withdrawn:
                of_entry = (found.other_ledger == entry.ledger) & (found.other_entry == entry.entry)
                covered |= of_entry & (found.ts_us >= entry.since_ts) & (found.seq < entry.until_seq)
            return covered

        return [Alibi("sent", names_unsent), Alibi("other", on_withdrawn)]
