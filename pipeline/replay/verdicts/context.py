"""The facts outside of a finding on which verdicts depend: joins, leaves, and the bugs that the broker can have."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from dispatch_audit.pipeline.contract.exceptions import ExceptionId
from dispatch_audit.pipeline.contract.known_bugs import Symptom, bugs_by_symptom, titles
from dispatch_audit.pipeline.contract.known_bugs import remedy as remedy_of
from dispatch_audit.pipeline.contract.rule import Contrast
from dispatch_audit.pipeline.contract.rules import MISROUTED, RULES, RuleName
from dispatch_audit.pipeline.packing.membership_rows import (
    CLOSED_BY_BROKER,
    RESTARTS,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.replay.state.output import By, KernelEpisode, KernelFinding
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, chosen, plain
from dispatch_audit.pipeline.replay.state.state import common_of, positions_at_joins
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.finding import (
    UNEXPLAINED,
    FindingText,
    FindingVerdict,
    JudgedFinding,
    Names,
    unexplained,
)

SENT_WITHOUT_ACK_MAX: Final = 1_000
"""The entries that may be sent before one is acknowledged: by default the receiver queue of a client."""

Row: TypeAlias = TracePoint | MembershipEvent | Snapshot | KernelFinding
"""What findings are about: a row of the trace, or a finding of the kernel on one."""

_Position: TypeAlias = tuple[int, int] | None  # None: no row shows it


class Rejoin(NamedTuple):
    """The join of a consumer while none was connected, and the leave of the last one before it."""

    joined: TracePoint  # the point of the join
    left: TracePoint  # the point of the leave
    by_broker: bool = False  # whether the broker closed the consumer that left, as it does for a seek or an unload


class FindingContext:
    """One replayed subscription and its broker."""

    def __init__(self, found: ReplayResult, config: ReplayConfig, recorders: Recorders = ONE) -> None:
        self.found, self.config, self.recorders = found, config, recorders
        self.names = Names(found, recorders)
        # The trace's number of each consumer, by its index in findings and episodes.
        self.numbers = found.dispatcher.consumers.numbers
        self.stays = found.membership.stays  # the join and the leave of each consumer, by the trace's number
        self.doubts = found.membership.owners.doubts  # the hashes whose owners are undecided
        self.exceptions: frozenset[ExceptionId] = frozenset(config.profile.exceptions)
        # Whether the broker runs the draining dispatcher; the others have recently joined consumers.
        self.drains = config.profile.dispatcher == "draining"
        self.skew_us, self.release = config.skew_us, config.release
        self._bugs = bugs_by_symptom(config.release, config.profile.dispatcher)

    @cached_property
    def reported_waits(self) -> list[Blocked]:
        """The intervals that the window reports, but for those whose length is not known."""
        return self._by_one_clock(self.found.reported_waits)

    @cached_property
    def reported_stalls(self) -> list[Blocked]:
        """Those that are findings."""
        return self._by_one_clock([wait for wait in self.found.noted_waits if wait.is_finding])

    def _by_one_clock(self, waits: list[Blocked]) -> list[Blocked]:
        begins = [apart.begins for apart in self.recorders.apart]
        return [of for of in waits if not any(of.span.from_seq < seq <= of.span.to_seq for seq in begins)]

    def bugs_with(self, *symptoms: Symptom) -> tuple[str, ...]:
        """The bugs with these symptoms that this broker can have (ids of `conf/known_bugs.toml`), in their order."""
        return tuple(bug for symptom in symptoms for bug in self._bugs[symptom])

    def applies(self, rule: RuleName) -> bool:
        """Whether a rule applies to the broker with its settings."""
        return rule in self.config.profile.rules and self.config.broker.get(RULES[rule].needs) is not False

    def explained(self, because: str, *symptoms: Symptom, exception: ExceptionId | None = None) -> FindingVerdict:
        """The verdict with a reason: bugs with these symptoms explain the finding, if the broker can have one of them.

        They may belong to an exception, if the contract of the broker has it.
        """
        bugs, permitted_by = self.bugs_with(*symptoms), exception if exception in self.exceptions else None
        if bugs:
            return FindingVerdict("known_bug", permitted_by, bugs, because)
        return UNEXPLAINED if symptoms else unexplained(because)

    def finding(
        self,
        at: Row,
        what: str,
        verdict: FindingVerdict,
        evidence: Sequence[str],
        *,
        against: str = "",
        contrast: Contrast = "",
        remedy: str = "",
        assumes: tuple[Assumption, ...] = (),
        consumer: int = NOBODY,
        consumer_name: str | None = None,
        other_consumer: int = NOBODY,
        entry: tuple[int | None, int | None] = (None, None),
        **columns: Any,
    ) -> JudgedFinding:
        """A finding about a row, with the reasons of its verdict; bugs that explain it say the remedy, if any does."""
        bugs = verdict.known_bugs
        why = *filter(None, [verdict.because]), *titles(bugs)
        return JudgedFinding(
            severity=verdict.severity,
            seq=at.seq,
            ts_us=at.ts_us,
            explanation=FindingText(what, against, contrast, why, remedy or remedy_of(bugs, self.release), assumes),
            evidence=evidence,
            consumer=self.names.number(consumer),
            consumer_name=consumer_name or self.names.name(consumer),
            **self.names.columns("other_consumer", other_consumer),
            ledger_id=entry[0],
            entry_id=entry[1],
            permitted_by=verdict.permitted_by,
            known_bugs=bugs,
            assumes=assumes,
            **columns,
        )

    def fact(
        self, rule: RuleName, at: Row, what: str, shown: str, because: str = "", remedy: str = "", **more: Any
    ) -> JudgedFinding:
        """A finding of a rule that only informs, which says why it is so and what helps, unless the finding does.

        `shown` is what the row says.
        """
        verdict = FindingVerdict("info", because=because or RULES[rule].because)
        evidence = [f"seq {self.names.seq(at.seq)}: {shown}"]
        return self.finding(at, what, verdict, evidence, remedy=remedy or RULES[rule].remedy, **more)

    @cached_property
    def acks_recorded(self) -> bool:
        """Whether the trace would have acknowledgements if there were any.

        A short trace may have none because there were none, unless its recorder says that it writes none. After more
        than `SENT_WITHOUT_ACK_MAX` dispatches some entry was certainly acknowledged.
        """
        dispatcher, written = self.found.dispatcher, self.config.written
        sent = sum(dispatched for dispatched, _ in dispatcher.counts.values()) * self.config.sample.one_in
        seen = bool(common_of(dispatcher.seen)["acks_seen"])
        return seen or "ack" in written or (not written and sent <= SENT_WITHOUT_ACK_MAX)

    @cached_property
    def leaves_recorded(self) -> bool:
        """Whether the trace would have leaves if there were any.

        A repeated name is a doubt and no proof that a leave is missing, because two consumers may share it.
        """
        written, names = self.config.written, [stay.row.name for stay in self.stays.values()]
        seen = any(stay.left is not None for stay in self.stays.values())
        return seen or "leave" in written or (not written and len({*names}) == len(names))

    @cached_property
    def oldest_open(self) -> tuple[int, int] | None:
        """The position of the oldest entry that is open at the end; None: none is."""
        entries: Any = self.found.dispatcher.seen.entries.view(np.ndarray)
        is_open = entries[(entries["ledger"] != UNKNOWN) & (entries["marks"] & Mark.ACKED == 0)]
        return min(zip(is_open["ledger"].tolist(), is_open["entry"].tolist(), strict=True), default=None)

    def joined(self, consumer: int) -> TracePoint | None:
        """The point at which a consumer, given by its index, joined; None if the trace has no join of it."""
        return None if consumer == NOBODY else self.stays[self.numbers[consumer]].joined

    @cached_property
    def when_joining(self) -> list[tuple[_Position, _Position, _Position]]:
        """What the dispatcher had reached when each consumer, by its index, joined (contract 6.7).

        They are the highest positions dispatched and published before, and `readPositionWhenJoining` of a snapshot.
        """
        seen, reported = self.found.dispatcher.seen, map(self.found.snapshots.joined_at.get, self.numbers)
        sent, published = (positions_at_joins(seen, of) for of in ("dispatched_at_join", "published_at_join"))
        return list(zip(sent, published, reported, strict=False))

    def was_short_since(self, consumer: int, ts_us: int) -> bool:
        """Whether a consumer that has left was without permits, or at its limit, after a time."""
        return consumer != NOBODY and self.found.loop.short_until_us.get(self.numbers[consumer], UNKNOWN) > ts_us

    def left_between(self, after_seq: int, before_seq: int, but_for: int) -> bool:
        """Whether a consumer other than `but_for`, an index, left between two rows."""
        # A change at the point of a row takes effect after it.
        first, last = (bisect_left(self._leaves, (seq,)) for seq in (after_seq, before_seq))
        return any(consumer != but_for for _, consumer in self._leaves[first:last])

    @cached_property
    def _leaves(self) -> list[tuple[int, ...]]:
        index_of = self.found.dispatcher.consumers.of
        return sorted((s.left.seq, index_of[number]) for number, s in self.stays.items() if s.left is not None)

    def rejoin_before(self, seq: int) -> Rejoin | None:
        """The last rejoin before a row; None: there is none."""
        at = bisect_left(self.rejoins, seq, key=lambda rejoin: rejoin.joined.seq) - 1
        return self.rejoins[at] if at >= 0 else None

    @cached_property
    def rejoins(self) -> list[Rejoin]:
        """All rejoins, in order.

        A join after a reset, which closes all consumers, is none: no read of the old dispatcher concerns the new one.
        """
        joins = [(stay.joined, 1, "") for stay in self.stays.values() if stay.joined is not None]
        leaves = [(stay.left, -1, stay.leave_reason) for stay in self.stays.values() if stay.left is not None]
        rejoins: list[Rejoin] = []
        connected, left, by_broker = 0, None, False
        for at, change, reason in sorted(joins + leaves):
            if change < 0:
                left, by_broker = None if reason in RESTARTS else at, reason == CLOSED_BY_BROKER
            elif connected == 0 and left is not None:
                rejoins.append(Rejoin(at, left, by_broker))
            connected += change
        return rejoins

    @cached_property
    def perhaps_empty_us(self) -> list[int]:
        """The times at which nobody may have been connected, although some joined just before the last others left."""
        joins = [(stay.joined.ts_us + self.skew_us, 1) for stay in self.stays.values() if stay.joined is not None]
        leaves = [(stay.left.ts_us - self.skew_us, -1) for stay in self.stays.values() if stay.left is not None]
        changes = sorted(joins + leaves)
        connected = np.cumsum([change for _, change in changes])
        empty = [ts_us for (ts_us, _), left in zip(changes, connected, strict=True) if left <= 0]
        certain = [rejoin.left.ts_us for rejoin in self.rejoins if rejoin.left < rejoin.joined]
        return [at for at in empty if all(abs(at - ts_us) > 2 * self.skew_us for ts_us in certain)]

    @cached_property
    def misrouted(self) -> frozenset[int]:
        """The dispatches, by their rows, that certainly went to a consumer that did not own the hash."""
        misrouted = chosen(self.found.findings, np.isin(self.found.findings.rule, MISROUTED))
        return frozenset(misrouted.seq[~self.doubts.which(misrouted.seq, misrouted.hash)].tolist())

    def drained_before(self, finding: KernelFinding, after_seq: int = UNKNOWN) -> bool:
        """Whether, after a row and at most one read before the dispatch, its hash stopped draining for the receiver."""
        return any(
            after_seq < to_seq < finding.seq and finding.ts_us - to_ts <= READ_US and new_owner == finding.consumer
            for to_seq, to_ts, new_owner in self._drained.get(finding.hash, ())
        )

    @cached_property
    def _drained(self) -> Mapping[int, list[tuple[int, int, int]]]:
        by_hash: dict[int, list[tuple[int, int, int]]] = {}
        drainings = self.found.drainings
        # No read survives a reset.
        for episode in plain(drainings[drainings.ended_by != By.RESET], KernelEpisode):
            by_hash.setdefault(episode.hash, []).append((episode.to_seq, episode.to_ts, episode.new_owner))
        return by_hash
