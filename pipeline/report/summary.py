"""The input of all reports: the runs of one call, read back from their tables.

Counts are complete. Findings and blocks are the worst few; the tables `violations` and `blocking` have all of them.
Times are microseconds since 1970 UTC, because a collected timestamp would be in the reader's time zone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dispatch_audit.pipeline.contract.answers import UNSETTLED_US, Missing, Order, Progress, worst_order, worst_progress
from dispatch_audit.pipeline.contract.profile import judged_as, profile_named
from dispatch_audit.pipeline.contract.rule import About
from dispatch_audit.pipeline.contract.rules import about
from dispatch_audit.pipeline.contract.severity import SEVERITIES, RunVerdict, Severity, worst_verdict
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.run.baseline import AcceptedFinding
from dispatch_audit.pipeline.trace import UnusableTrace
from dispatch_audit.pipeline.windows.window import Window


@dataclass(frozen=True)
class RuleCounts:
    """The findings of one rule, over all subscriptions.

    Attributes:
        rule: its name.
        checked: events or entries that it was applied to.
        findings: their number by severity, zeros included.
        accepted: how many of them the baseline accepts, where it accepts some.
    """

    rule: str
    checked: int
    findings: dict[Severity, int]
    accepted: Mapping[Severity, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupCounts:
    """The findings of one rule on one subscription of one topic partition.

    Attributes:
        checked: events or entries that the rule was applied to.
        findings: their number by severity, zeros included.
        completeness: share of the subscription's events that could carry a verdict, 0 to 1; None: not known.
        accepted: how many of the findings the baseline accepts, where it accepts some.
    """

    topic: str
    subscription: str
    rule: str
    checked: int
    findings: dict[Severity, int]
    completeness: float | None
    accepted: Mapping[Severity, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SubscriptionAnswers:
    """The two answers on one subscription of one topic partition: columns of `coverage`.

    Attributes:
        dispatches: recorded.
        dispatches_judged: those that rules about order were applied to.
        held_up_seconds: the longest time without progress for any consumer; 0: there is none.
        held_up_cause: its cause; None: there is none.
        held_up_by: the consumer that held it up; None: none did.
        expected_wait_seconds: the longest such time for an expected cause.
        missing: what the trace lacks, where an answer is not provable for that reason.
        order_held_back: findings about order that a window leaves to the next one, which may explain them.
        progress_held_back: the same about progress, with the times without progress for any consumer.
    """

    topic: str
    subscription: str
    order_verdict: Order
    progress: Progress
    dispatches: int
    dispatches_judged: int
    held_up_seconds: float = 0.0
    held_up_cause: str | None = None
    held_up_by: str | None = None
    expected_wait_seconds: float = 0.0
    expected_wait_cause: str | None = None
    missing: tuple[Missing, ...] = ()
    order_held_back: int = 0
    progress_held_back: int = 0


@dataclass(frozen=True)
class Finding:
    """A row of `violations`, as far as a report shows it.

    Attributes:
        explanation: all parts in a sentence.
        what: what happened; of a row that an older version of the audit wrote, the whole sentence.
        against: what contradicts it; None: it is wrong by itself.
        why: the reasons for the verdict.
        remedy: what helps; None: nothing is known to.
        change: the membership change behind it, such as `join c2`; None: its words name none.
        finding_id: the same in every audit of the trace; None: an older version of the audit wrote the row.
        accepted: whether the baseline of the audit accepts it.
        assumes: the values of settings on which it rests and that no row says.
    """

    rule: str
    severity: Severity
    topic: str
    subscription: str
    seq: int
    ts_us: int
    sticky_hash: int | None
    key: str | None
    permitted_by: str | None
    known_bug: str | None
    explanation: str
    evidence: tuple[str, ...]
    what: str
    against: str | None = None
    why: tuple[str, ...] = ()
    remedy: str | None = None
    change: str | None = None
    ledger_id: int | None = None
    entry_id: int | None = None
    consumer: int | None = None
    other_consumer: int | None = None
    broker: str | None = None
    finding_id: str | None = None
    consumer_name: str | None = None
    other_consumer_name: str | None = None
    accepted: bool = False
    assumes: tuple[Assumption, ...] = ()

    @property
    def row(self) -> str:
        """The row that completes the finding, as a text names it."""
        return f"seq {self.seq}" if self.broker is None else f"seq {self.seq} of {self.broker}"

    @property
    def reason(self) -> str:
        """The known bug or the exception that explains it; empty: neither does."""
        return self.known_bug or self.permitted_by or ""

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """What the finding says, by a label: the texts of each part that it has."""
        texts = {
            "what": (self.what,),
            "against": (self.against or "",),
            "why": self.why,
            "remedy": (self.remedy or "",),
        }
        return {label: given for label, of_part in texts.items() if (given := tuple(filter(None, of_part)))}


@dataclass(frozen=True)
class CauseTotals:
    """How much one cause blocked: intervals, and the sum of the waiting messages' times in seconds."""

    cause: str
    intervals: int
    message_seconds: float


@dataclass(frozen=True)
class Wait:
    """A row of `blocking`, as far as a text shows it.

    Attributes:
        seconds: length of the interval; up to the end of the trace where it is still open (`ended_by` None).
        root_positions: the oldest unacknowledged entries that it depended on, ledger:entry; where nobody held them up,
            the oldest that waited.
        held: whether a consumer held them.
    """

    explanation: str
    from_ts_us: int
    seconds: float
    root_positions: tuple[str, ...]
    ended_by: str | None
    held: bool


@dataclass(frozen=True)
class Block:
    """The intervals of one cause that one consumer is to blame for, in one subscription.

    Attributes:
        cause: as in `blocking`.
        broker: the recorder that numbered the consumer; None: the trace names none.
        consumer: the one to blame, which may be the one that waited; None: the rows name none.
        intervals: their number.
        message_seconds: waiting time summed over the waiting messages.
        longest_s: length of the longest, in seconds.
        worst: the interval that cost most.
    """

    cause: str
    topic: str
    subscription: str
    broker: str | None
    consumer: int | None
    consumer_name: str | None
    intervals: int
    message_seconds: float
    longest_s: float
    worst: Wait


@dataclass(frozen=True)
class Partition:
    """A row of `coverage` below 1, as far as a report shows it."""

    topic: str
    subscription: str
    completeness: float
    rows: int
    rows_refused: int
    rows_censored: int
    dispatches_undecided: int
    dispatches_without_key: int
    gaps: int | None = None
    rows_dropped: int | None = None
    rows_censored_by_gaps: int | None = None


@dataclass(frozen=True)
class HotKey:
    """A row of `hot_keys`, as far as a report shows it."""

    topic: str
    subscription: str
    sticky_hash: int
    key: str | None
    keys_on_hash: int
    dispatched: int
    dispatched_error_max: int
    dispatched_share: float | None
    unacked_max: int | None
    blocked_seconds: float


@dataclass(frozen=True)
class SpreadKey:
    """A key that came to several partitions, whose numbers ascend, of a topic."""

    topic: str
    key: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class MixedProducer:
    """A row of `producers` with batches of several keys, or of keys that are not recorded."""

    topic: str
    subscription: str
    producer_name: str | None
    batches: int
    batches_inspected: int
    mixed_batches: int


@dataclass(frozen=True)
class KeylessProducer:
    """A row of `producers` with entries without a key."""

    topic: str
    subscription: str
    producer_name: str | None
    entries: int
    keyless_entries: int


@dataclass(frozen=True)
class RunSummary:
    """One run: the audit of one trace.

    Attributes:
        rules: every rule that was applied, by name.
        groups: the same by subscription: topic, subscription, rule.
        findings: the worst of each rule, the worst first; after all others those that the baseline accepts.
        causes: the cause that cost most first.
        blocks: those with the most message-seconds, the costliest first.
        refused: quarantined rows by reason code, the most frequent first.
        keys_digested: whether keys in the report are digests that the recorder wrote in their place.
        sample: the share of the hashes that was audited, such as `1/64`, and the salt that chose them; None: all.
        chosen: the patterns of the topics and subscriptions that were audited; none: all were.
        incomplete: subscriptions of which not every row could be judged, the least complete first.
        hot_keys: the most dispatched ones.
        spread_keys: those of the most dispatched ones that several partitions of a topic have.
        mixed_producers: producers of batches of several keys, those with the most first.
        keyless_producers: producers of entries without a key, those with the most first.
        order: whether order was kept, the worst of the subscriptions; None: an older version of the audit did not say.
        progress: whether messages made progress, the same way.
        subscriptions: the answers on each subscription, by topic and name; none if `order` is None.
        stall_threshold_s: from how many seconds on a time without progress counts (`blocking.stall_threshold_ms`).
        starts_from: the column of `runs`; None: the whole log was audited.
        engine: the engine that ran the audit, and its version; None: an older version of the audit did not say.
        window: the part of a log that was audited; None: all of it.
        recorded_by: where the trace was recorded; None: an older version of the audit did not say.
        events_late: rows that were added to earlier windows after their audit.
        intervals_left_out: intervals of waiting beyond the limit, which `blocking` and `causes` lack.
    """

    run_key: str
    inputs: tuple[str, ...]
    verdict: RunVerdict
    completeness: float
    events_in: int
    events_quarantined: int
    profile: str
    pulsar_version: str | None
    from_ts_us: int | None
    to_ts_us: int | None
    rules: tuple[RuleCounts, ...]
    findings: tuple[Finding, ...]
    causes: tuple[CauseTotals, ...]
    blocks: tuple[Block, ...]
    refused: dict[str, int]
    groups: tuple[GroupCounts, ...] = ()
    incomplete: tuple[Partition, ...] = ()
    keys_digested: bool = False
    sample: tuple[str, str] | None = None
    chosen: tuple[str, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    spread_keys: tuple[SpreadKey, ...] = ()
    mixed_producers: tuple[MixedProducer, ...] = ()
    keyless_producers: tuple[KeylessProducer, ...] = ()
    order: Order | None = None
    progress: Progress | None = None
    subscriptions: tuple[SubscriptionAnswers, ...] = ()
    stall_threshold_s: float = 1.0
    starts_from: str | None = None
    engine: str | None = None
    recorded_by: str | None = None
    window: Window | None = None
    events_late: int = 0
    intervals_left_out: int = 0

    @property
    def judged_as(self) -> str | None:
        """A sentence for a release without a profile: as which release it is judged; None: it has a profile."""
        return judged_as(self.pulsar_version, profile_named(self.profile))

    @property
    def is_continued(self) -> bool:
        """Whether the next window judges the last minute of this one (`replay.subscription.result`)."""
        to_us = None if self.window is None else self.window.to_us
        return to_us is not None and to_us <= (self.to_ts_us or to_us) + UNSETTLED_US

    @property
    def held_up_seconds(self) -> float:
        """The longest time without progress for any consumer."""
        return max((of.held_up_seconds for of in self.subscriptions), default=0.0)

    @property
    def accepted(self) -> int:
        """The number of findings that the baseline accepts."""
        return sum(sum(counts.accepted.values()) for counts in self.rules)

    @property
    def without_accepted(self) -> "RunSummary":
        """The run without the findings that the baseline accepts; the counts are of all."""
        return replace(self, findings=tuple(finding for finding in self.findings if not finding.accepted))

    def about(self, question: About) -> tuple[RuleCounts, ...]:
        """Returns the counts of the rules whose findings answer a question."""
        return tuple(counts for counts in self.rules if about(counts.rule) == question)


@dataclass(frozen=True)
class Summary:
    """All runs of one call.

    Attributes:
        target: where the tables are.
        tables: by name what to open, a path or a name in a catalog.
        runs: in the order in which the traces were given.
        unusable: other traces, which could not be audited.
        stale: what the baseline accepts and the runs do not have.
    """

    target: str
    tables: dict[str, str]
    runs: tuple[RunSummary, ...]
    unusable: tuple[UnusableTrace, ...] = ()
    stale: tuple[AcceptedFinding, ...] = ()

    @property
    def run_is(self) -> str:
        """The noun for a run: `trace`, or `window` if several runs are of one trace."""
        windows = [run.inputs for run in self.runs if run.window is not None]
        return "window" if len(set(windows)) < len(windows) else "trace"

    @property
    def verdict(self) -> RunVerdict:
        """The worst of the runs."""
        return worst_verdict(run.verdict for run in self.runs)

    @property
    def order(self) -> Order | None:
        """The worst of the runs; None: an older version of the audit wrote one of them."""
        known = [run.order for run in self.runs if run.order is not None]
        return worst_order(known) if len(known) == len(self.runs) else None

    @property
    def progress(self) -> Progress | None:
        """The worst of the runs; None: an older version of the audit wrote one of them."""
        known = [run.progress for run in self.runs if run.progress is not None]
        return worst_progress(known) if len(known) == len(self.runs) else None

    @property
    def held_up_seconds(self) -> float:
        """The longest time without progress for any consumer."""
        return max((run.held_up_seconds for run in self.runs), default=0.0)

    @property
    def events_in(self) -> int:
        """Rows read."""
        return sum(run.events_in for run in self.runs)

    @property
    def events_quarantined(self) -> int:
        """Rows refused."""
        return sum(run.events_quarantined for run in self.runs)

    @property
    def completeness(self) -> float:
        """Share of all rows that could carry a verdict; each run weighs as much as it has rows."""
        weighted = sum(run.completeness * run.events_in for run in self.runs)
        # A window without rows is complete.
        return weighted / self.events_in if self.events_in else 1.0

    @property
    def rules(self) -> tuple[RuleCounts, ...]:
        """The counts of all runs together."""
        return total_rules(run.rules for run in self.runs)

    @property
    def causes(self) -> tuple[CauseTotals, ...]:
        """The causes of all runs together."""
        return total_causes(run.causes for run in self.runs)


def total_rules(of_runs: Iterable[Iterable[RuleCounts]]) -> tuple[RuleCounts, ...]:
    """Adds up counts rule by rule."""
    totals: dict[str, RuleCounts] = {}
    for counts in (counts for of_run in of_runs for counts in of_run):
        so_far = totals.get(counts.rule, RuleCounts(counts.rule, 0, dict.fromkeys(SEVERITIES, 0)))
        findings = {severity: so_far.findings[severity] + counts.findings[severity] for severity in SEVERITIES}
        accepted = Counter(so_far.accepted) + Counter(counts.accepted)
        totals[counts.rule] = RuleCounts(counts.rule, so_far.checked + counts.checked, findings, accepted)
    return tuple(totals[rule] for rule in sorted(totals))


def total_causes(of_runs: Iterable[Iterable[CauseTotals]]) -> tuple[CauseTotals, ...]:
    """Adds up causes, and puts the one that cost most first."""
    totals: dict[str, CauseTotals] = {}
    for cause in (cause for of_run in of_runs for cause in of_run):
        so_far = totals.get(cause.cause, CauseTotals(cause.cause, 0, 0.0))
        totals[cause.cause] = CauseTotals(
            cause.cause, so_far.intervals + cause.intervals, so_far.message_seconds + cause.message_seconds
        )
    return tuple(sorted(totals.values(), key=lambda total: (-total.message_seconds, total.cause)))
