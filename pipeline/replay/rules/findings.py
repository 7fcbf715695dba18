"""Collects the findings of one subscription until it ends, and joins them with alibis.

The rules report every contradiction at the moment of a dispatch. A rule says which facts its findings rest on
(`Rule.rests_on`). An alibi is about one fact, and covers the findings that rest on it, of its subject and in its time.
The mildest alibi decides. So it does not matter in which order alibis are found; where two are equally mild, the reason
of the first in the list is given.

Alibis that are known by the time of a finding, a former routing or an exception, are joined at once. Only later rows
show which dispatches never left the broker and which entries were perhaps not held, so these are joined at the end.
`verdicts` judges what stands. A trace that breaks a rule with every row must not fill the memory, but every finding
must count, so findings are kept up to a limit and counted beyond it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.rule import Fact
from dispatch_audit.pipeline.contract.rules import GAP_DELIVERY, NAME_OF, RULES
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.replay.state.output import (
    EPISODE,
    EPISODES,
    FINDING,
    FINDINGS,
    UNSENT,
    WITHDRAWAL,
    WITHDRAWN,
    By,
    Output,
    Withdrawal,
)
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen, first_of, plain, together
from dispatch_audit.pipeline.replay.state.state import Policy
from dispatch_audit.pipeline.replay.state.values import TRACKED, Mark

NO_ALIBI: Final = -1

Mask: TypeAlias = NDArray[np.bool_]


class Alibi(NamedTuple):
    """A reason why a fact may not hold."""

    fact: Fact  # the fact
    # Whether it covers each of n findings that rest on the fact, by their subject and their time.
    covers: Callable[[Records], Mask]
    severity: Severity | None = None  # the severity of what it covers; None: that is no finding
    because: str = ""  # the reason as a clause; empty: nobody asks for it
    since_seq: int = UNKNOWN  # it covers only what comes after this row

    @property
    def badness(self) -> int:
        """Alibis of a lower badness are milder."""
        return NO_ALIBI if self.severity is None else SEVERITIES.index(self.severity)


def resting_on(fact: Fact) -> list[int]:
    """The numbers of the rules of the kernel whose findings rest on a fact."""
    return [number for number, name in NAME_OF.items() if fact in RULES[name].rests_on]


def everything(found: Records) -> Mask:
    """All findings."""
    return np.ones(found.size, dtype=np.bool_)


def joined(found: Records, alibis: Sequence[Alibi]) -> Ints:
    """For each finding the index of its alibi; NO_ALIBI: it has none."""
    by = np.full(found.size, NO_ALIBI, dtype=np.int64)
    # The mildest is written last, and of equally mild ones the first.
    for index in sorted(range(len(alibis)), key=lambda index: (-alibis[index].badness, -index)):
        alibi = alibis[index]
        at = np.flatnonzero(np.isin(found.rule, resting_on(alibi.fact)) & (found.seq > alibi.since_seq))
        if at.size:
            by[at[alibi.covers(chosen(found, at))]] = index
    return by


def standing(found: Records, alibis: Iterable[Alibi]) -> Records:
    """The findings that no alibi covers."""
    by = joined(found, [*alibis])
    return found if (by == NO_ALIBI).all() else chosen(found, by == NO_ALIBI)


NOT_PERMITTED: Final = 0


def permitted(found: Records, policy: Policy, exceptions: Collection[ExceptionId]) -> Ints:
    """The number of the exception of the profile that permits each finding, or `NOT_PERMITTED`.

    Findings have the marks of the entries before the dispatch. Where consumers allow it, nothing keeps order.
    """
    cases: tuple[tuple[ExceptionId, Fact, Callable[[Records], Mask]], ...] = (
        # Ownership is promised even so.
        ("E5", "ordered", lambda found: np.full(found.size, not policy.keeps_order)),
        # A nacked entry is in replay without its hash, so it blocks no entry and no entry blocks it (4.12, 5.6).
        ("E1", "in order", lambda found: _either(found, Mark.NACKED)),
        # Once sent when due, a delayed entry is like any other: when its consumer leaves, it returns with its hash.
        ("E2", "in order", lambda found: _may_be_tracked(found.marks) | _may_be_tracked(found.other_marks)),
        ("E2", "in order", lambda found: _came_back_early(found, policy.delay_tick_us)),
        ("E6", "in order", lambda found: _either(found, Mark.MAYBE_SKIPPED)),
        ("E6", "one holder", lambda found: found.other_marks & Mark.MAYBE_SKIPPED != 0),
        # No consumer acknowledged it: a read in flight contained it when mark-delete passed it.
        ("E6", "once", lambda found: (found.acknowledged == 1) & (found.marks & Mark.PASSED != 0)),
    )
    known = [case for case in cases if case[0] in exceptions]
    # The last number is that of a finding with NO_ALIBI.
    numbers = np.array([*(int(exception[1:]) for exception, _, _ in known), NOT_PERMITTED], dtype=np.int64)
    by: Ints = numbers[joined(found, [Alibi(fact, covers, "permitted") for _, fact, covers in known])]
    return by


def _either(found: Records, mark: int) -> Mask:
    either: Mask = (found.marks | found.other_marks) & mark != 0
    return either


def _may_be_tracked(marks: Ints) -> Mask:
    """Whether each entry was, or may have been, in the tracker of delayed entries since its last dispatch (4.13)."""
    tracked: Mask = (marks & TRACKED == Mark.DELAYED) | (marks & Mark.CLAIMED_DUE != 0)
    return tracked


def _came_back_early(found: Records, tick_us: int) -> Mask:
    """Whether the other entry of each was sent before its time, and is back before it (4.13).

    The broker did not delay messages when it sent it, and tracks it now if it does so now.
    """
    early: Mask = (found.other_due_ts - found.other_ts > 2 * tick_us) & (found.other_due_ts > found.ts_us)
    asked: Mask = found.other_marks & Mark.DELAYED != 0
    return early & asked


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
    # The routing that the broker's selector actually uses, and the former ones that explain other receivers, each with
    # the time by which it was over; owners are indexes in the state.
    _served: Routing = field(default_factory=lambda: routing_of_ranges(()))
    _former: list[tuple[Routing, int]] = field(default_factory=list)
    _episodes: list[Records] = field(default_factory=lambda: [np.empty(0, dtype=EPISODE).view(np.recarray)])
    _unsent: list[Ints] = field(default_factory=lambda: [np.empty(0, dtype=np.int64)])
    _withdrawn: list[Records] = field(default_factory=lambda: [np.empty(0, dtype=WITHDRAWAL).view(np.recarray)])
    _without_end_reported: int = 0

    def collect(self, out: Output, policy: Policy) -> None:
        """Takes all reports of the kernel, made under this policy, and empties its output."""
        filled = out.filled.tolist()
        if filled[FINDINGS]:
            former = Alibi("owner", lambda found: self._decided_before(found, policy.unordered_us))
            found = standing(first_of(out.findings, filled[FINDINGS]), [former])
            found.permitted = permitted(found, policy, self._exceptions)
            gaps = found.rule == GAP_DELIVERY
            found.other_consumer[gaps] = self._served.owners_of(found.hash[gaps])
            self.findings.add(found)
        if filled[EPISODES]:
            self._episodes.append(first_of(out.episodes, filled[EPISODES]))
        if filled[UNSENT]:
            self._unsent.append(out.unsent[: filled[UNSENT]].copy())
        if filled[WITHDRAWN]:
            self._withdrawn.append(first_of(out.withdrawn, filled[WITHDRAWN]))
        out.filled[:] = 0

    def change_routing(self, before: Routing, served: Routing, over_us: int, late_us: int) -> None:
        """Notes that another routing is in force.

        Args:
            before: the routing that was in force until now.
            served: the routing of the broker's selector, which a flaw may make another one (contract 2.4).
            over_us: the time by which the change certainly took effect.
            late_us: how much later than it was decided a dispatch may be recorded, at most.
        """
        self._former = [(old, until_us) for old, until_us in self._former if until_us + late_us >= over_us]
        self._former.append((before, over_us))
        self._served = served

    def _decided_before(self, found: Records, late_us: int) -> Mask:
        """Which findings on a wrong owner may be dispatches under a former routing, recorded up to `late_us` later."""
        explained: Mask = np.zeros(found.size, dtype=np.bool_)
        if late_us > 0:
            for routing, until_us in self._former:
                owned = routing.owners_of(found.hash) == found.consumer
                explained |= owned & (found.ts_us <= until_us + late_us)
        return explained

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
            part.ended_by[part.ended_by == By.OPEN] = By.GAP

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
