"""Collects the findings of one subscription until it ends, kept up to a limit and counted beyond it.

A trace that breaks a rule with every row must not fill the memory, but every finding must count.

The rules report every contradiction at the moment of a dispatch. Findings with an alibi that is known by then, a former
routing or an exception, are dropped or marked at once. Only later rows show which dispatches never left the broker and
which entries were perhaps not held, so these alibis are joined at the end. `verdicts` judges what stands.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rules import GAP_DELIVERY, NAME_OF, RULES
from dispatch_audit.pipeline.replay.rules.alibis import Alibi, Mask, permitted, standing
from dispatch_audit.pipeline.replay.state.output import (
    BY_GAP,
    EPISODE,
    EPISODES,
    FINDING,
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
        for kind in {(int(f.rule), int(f.permitted)) for f in np.unique(found[["rule", "permitted"]])}:
            alike = np.flatnonzero((found.rule == kind[0]) & (found.permitted == kind[1]))
            room = min(self._kept_max, _KEPT_MAX_OF.get(kind[0], self._kept_max)) - self._counts[kind]
            self._counts[kind] += min(alike.size, room)
            if alike.size > room:
                kept[alike[room:]] = False
                self.beyond[kind] += alike.size - room
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
