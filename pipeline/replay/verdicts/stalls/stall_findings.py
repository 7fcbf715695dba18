"""Findings of `draining_stuck` and `stalled`: entries that could be sent and were not (V10, V11).

A hash was passed over if no other consumer held it and, while its entries waited for long, its owner was sent later
ones: so the owner had permits, and the broker had read past the waiting entries. Without flow rows it had some for
certain from the first of these on. If the owner was sent nothing at all, flow rows have to show that it had permits,
and other consumers have to be sent later entries. If no consumer is sent anything, the whole standstill is the finding
and not each hash, unless the trace explains it. If no row shows permits, the consumers may have had none, and a
standstill is not provable.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval, StallKind
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import DOUBTS, PERMITS
from dispatch_audit.pipeline.replay.blocking.stalls.symptoms import BUGS_OF, NO_READ_PENDING
from dispatch_audit.pipeline.replay.durations import FAILED_READ_US
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.state.values import Cause
from dispatch_audit.pipeline.replay.verdicts.alibis import assumed, doubt_of_waits, is_not_known, of_waits, unknown
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.filtered import doubt_of_filters, doubt_of_hash
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding, RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import bugs_of, cut_off, hang_in, hung, spoken
from dispatch_audit.pipeline.replay.verdicts.stalls.replay_growth import growths
from dispatch_audit.pipeline.replay.verdicts.stalls.standstill import Standstill, of_hash, of_subscription, standstills


def stuck_findings(context: FindingContext) -> list[RuleFindings]:
    """The hashes that were passed over and the unexplained standstills, by rule, the longest first."""
    stalls = [_hung(stall, context) for stall in context.reported_stalls]
    passed_over = context.found.reported_passed_over
    proven = ((wait, wait.kind.provable and not _doubt(wait, context)) for wait in (*passed_over, *stalls))
    found = sorted(standstills(proven), key=_by_cost)
    of_all = growths(context) + cut_off(context, stalls) + hung(context, [*stalls, *context.reported_waits])
    checks: dict[RuleName, int] = {
        "draining_stuck": int(np.count_nonzero(context.found.report_range.holds(context.found.drainings.to_seq))),
        "stalled": int(context.found.dispatcher.checked[DISPATCHES]),
    }
    by_rule = []
    for rule, checked in checks.items():
        findings = [_finding(standstill, context) for standstill in found if _rule(standstill.longest.kind) == rule]
        findings += of_all if rule == "stalled" else []
        by_rule.append(RuleFindings(rule, checked, severities(findings) + _beyond(rule, context), findings))
    return by_rule


def _hung(stall: Blocked, context: FindingContext) -> Blocked:
    """A stall without a doubt about permits if the broker hung: no snapshot could show any, nor did they matter."""
    if stall.kind.doubt != PERMITS or hang_in(stall.span, context) is None:
        return stall
    return stall._replace(detail={**stall.detail, "doubt": ""})


def _by_cost(standstill: Standstill) -> tuple[bool, int, int]:
    of = standstill.longest
    return not of.is_passed_over, -standstill.idle_us * of.entries, standstill.span.from_seq


def _rule(kind: StallKind) -> RuleName:
    return "draining_stuck" if kind.cause == Cause.DRAINING_STUCK.word else "stalled"


def _beyond(rule: RuleName, context: FindingContext) -> Counter[Severity]:
    """The severities of the findings beyond `blocking.intervals_max`, which were only counted."""
    counts: Counter[Severity] = Counter()
    for kind, number in context.found.monitor.intervals.findings_beyond.items():
        # What the whole subscription waits for depends on entries that a sample does not have.
        if _rule(kind) == rule and (kind.scope == "hash" or context.config.sample.is_all):
            counts[_severity(kind, _bugs(kind, context, keeps_order=True))] += number
    return counts


def _doubt(wait: Blocked, context: FindingContext) -> str:
    """Why a wait is not provable although its rows show it, as a clause; empty: it is provable."""
    span, oldest = wait.span, next(iter(wait.roots), None)
    if wait.is_passed_over:
        undecided = context.doubts.about(wait.hash, span.from_seq, span.to_seq)
        filtered, stood_still = doubt_of_hash(context, wait), ""
    else:
        # The owners of the waiting hashes decide which consumers could have been sent something.
        changes = context.doubts.between(span.from_seq, span.to_seq) if wait.detail["owners_matter"] else ()
        undecided = next(iter(changes), None)
        filtered, stood_still = doubt_of_filters(context, oldest), _perhaps_stood_still(span, context)
    if undecided is not None:
        return undecided.because
    return filtered or stood_still or doubt_of_waits(context, span.to_seq) or unknown(wait.detail["rests_on"], context)


def _perhaps_stood_still(span: Interval, context: FindingContext) -> str:
    """Why the whole broker may have stood still in an interval, as a clause.

    Empty if the interval without the times in which the broker wrote no row is still long enough for a stall.
    """
    found = context.found
    silent_us = found.signs.without_running(found.silence.within(span.from_ts, span.to_ts))
    if span.to_ts - span.from_ts - silent_us >= context.config.thresholds.stall_threshold_us:
        return ""
    return (
        f"for {silent_us / 1e6:.3f} s of it the broker wrote no row at all, not even the snapshots that were due, so "
        "all of it may have stood still, as in a garbage collection or on a paused machine"
    )


def _severity(kind: StallKind, bugs: tuple[str, ...]) -> Severity:
    if not kind.provable:
        return "not_provable"
    return "known_bug" if bugs else "violation"


def _bugs(kind: StallKind, context: FindingContext, keeps_order: bool) -> tuple[str, ...]:
    """The bugs whose symptom the rows of a wait show, if the release may have them."""
    symptom = BUGS_OF.get(kind.symptom)
    if symptom is None or (symptom == "nothing_is_read" and kind.healed):
        # The dispatcher waits for a read that does not exist, so such a stall does not heal by itself.
        return ()
    if symptom in ("parked_at_the_end", "passed_over_in_replay") and not keeps_order:
        symptom = "not_sent_out_of_order"
    return context.bugs_with(symptom)


def _finding(standstill: Standstill, context: FindingContext) -> JudgedFinding:
    wait, span = standstill.longest, standstill.span
    kind, doubt = wait.kind, _doubt(wait, context)
    hang = None if wait.is_passed_over else hang_in(span, context)
    bugs: tuple[str, ...] = ()
    if kind.provable and not doubt:
        keeps_order = context.found.dispatcher.policy.keeps_order
        bugs = _bugs(kind, context, keeps_order) if hang is None else bugs_of(hang, context)
    severity = "not_provable" if doubt else _severity(kind, bugs)
    named = dict.fromkeys(name for part in standstill.parts for name in part.detail["rests_on"])
    told = (of_hash if wait.is_passed_over else of_subscription)(standstill, context.names)
    reasons = *([] if hang is None else [spoken(hang)]), *_reasons(wait, context, doubt)
    return context.finding(
        TracePoint(span.to_seq, span.to_ts),
        told.what,
        FindingVerdict(severity, known_bugs=bugs, because="; ".join(reasons)),
        told.evidence,
        contrast="although",
        against=told.against,
        assumes=assumed(() if severity == "not_provable" else (*named, *of_waits(context)), context),
        entry=next(iter(wait.roots), (None, None)),
        detail=told.detail,
        **told.about,
    )


def _reasons(wait: Blocked, context: FindingContext, doubt: str) -> Iterator[str]:
    """The reasons for the verdict on a wait, the doubt among them."""
    kind = wait.kind
    if not kind.permits_known:
        yield "no row shows whether they had permits"
    if wait.blocking != NOBODY and not wait.is_passed_over:
        yield f"the last dispatch to {context.names.spoken(wait.blocking)} had not reached its connection"
    if kind.symptom == NO_READ_PENDING:
        yield _no_read_pending(wait, kind)
    if doubt:
        yield doubt
    if kind.doubt:
        yield DOUBTS[kind.doubt].because
    if kind.unknown:
        yield is_not_known(wait.detail["unknown"])


def _no_read_pending(stall: Blocked, kind: StallKind) -> str:
    """What a read that failed has to do with a stall in which none was pending."""
    lasted_us = stall.span.to_ts - stall.span.from_ts
    if kind.healed and lasted_us < FAILED_READ_US:
        return (
            f"no read was pending, and sending went on after {lasted_us / 1e6:.3f} s: a read that fails explains "
            f"pauses from {FAILED_READ_US // 1_000_000} s on (dispatcherReadFailureBackoffInitialTimeInMs)"
        )
    return (
        "no read was pending: after one that fails the broker waits from 15 s up to a minute "
        "(dispatcherReadFailureBackoffInitialTimeInMs), and its log says why it failed"
    )
