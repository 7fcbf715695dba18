"""Findings of `assignment_mismatch` and `draining_mismatch`: snapshots of the broker that contradict the trace."""

from collections.abc import Mapping, Sequence

from dispatch_audit.pipeline.contract.known_bugs import remedy, titles
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.snapshots.comparison import Mismatch
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.missing.alibis import not_acknowledged, perhaps_other_dispatcher
from dispatch_audit.pipeline.replay.verdicts.naming import Names
from dispatch_audit.pipeline.replay.verdicts.verdict import UNEXPLAINED, FindingVerdict, not_provable
from dispatch_audit.pipeline.utc import moment

_NAMED_MAX = 10
# By rule: the noun for what differs, and the clauses for what only the broker has and for what only the trace has.
_DIFFERENCES: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "assignment_mismatch": (
        ("hash range", "hash ranges"),
        (
            "the broker reports {} that the trace does not show: {}",
            "the trace shows {} that the broker does not report: {}",
        ),
    ),
    "draining_mismatch": (
        ("draining hash", "draining hashes"),
        (
            "the broker reports more entries than the trace allows of {}: {}",
            "the broker reports fewer entries than the trace requires of {}: {}",
        ),
    ),
}
_RULES: tuple[RuleName, ...] = ("assignment_mismatch", "draining_mismatch")


def mismatch_findings(context: FindingContext) -> list[RuleFindings]:
    """The mismatches between snapshots and the replay, by rule, in the order of the trace."""
    found = context.found
    by_rule = []
    for rule in _RULES:
        findings = [_finding(m, context) for m in found.reported_mismatches if m.rule == rule]
        counts = severities(findings)
        # Mismatches beyond the limit were only counted; without evidence no reason for a milder verdict is known.
        unproven = found.membership.owners.unknown or (rule == "draining_mismatch" and bool(_never_recorded(context)))
        counts["not_provable" if unproven else "violation"] += found.snapshots.comparison.beyond[rule]
        by_rule.append(RuleFindings(rule, found.snapshots.comparison.compared[rule], +counts, findings))
    return by_rule


def _never_recorded(context: FindingContext) -> str:
    """Why the trace does not show which hashes drain, as a clause: it has no row of some kind; empty: it shows it."""
    if not context.found.dispatcher.checked[DISPATCHES]:
        return "the trace has no row of a dispatch, so it does not show what consumers held"
    return not_acknowledged(context)


def _perhaps_left(mismatch: Mismatch, context: FindingContext) -> str:
    """Why leaves may be missing in the trace, as a clause: the snapshot lacks a consumer; empty: it does not."""
    if context.leaves_recorded:
        return ""
    listed = {consumer.consumer for consumer in mismatch.snapshot.consumers}
    joined = [stay.joined for number, stay in context.stays.items() if number not in listed and stay.joined is not None]
    gone = any(at.seq < mismatch.snapshot.seq_begin for at in joined)
    return "the trace has no row of a leave, and the snapshot lacks a consumer that had joined" if gone else ""


def _verdict(mismatch: Mismatch, context: FindingContext) -> FindingVerdict:
    of_draining = mismatch.rule == "draining_mismatch"
    because = (
        mismatch.undecided
        or perhaps_other_dispatcher(context, mismatch.snapshot.seq)
        or _perhaps_left(mismatch, context)
        or (_never_recorded(context) if of_draining else "")
    )
    if because:
        return not_provable(because)
    if of_draining and mismatch.missing and not mismatch.surplus:
        bugs = context.bugs_with("reported_as_draining_still")
        if bugs:
            return FindingVerdict("known_bug", None, bugs)
    return UNEXPLAINED


def _finding(mismatch: Mismatch, context: FindingContext) -> JudgedFinding:
    verdict, snapshot, names = _verdict(mismatch, context), mismatch.snapshot, context.names
    evidence, bracket = taken_between(snapshot, names)
    noun, templates = _DIFFERENCES[mismatch.rule]
    differences = "; ".join(
        template.format(count(len(items), *noun), _listed(items))
        for template, items in zip(templates, (mismatch.missing, mismatch.surplus), strict=True)
        if items
    )
    return JudgedFinding(
        severity=verdict.severity,
        seq=snapshot.seq,
        ts_us=snapshot.ts_us,
        explanation=FindingText(
            what=f"for {names.spoken(mismatch.consumer)} at {moment(snapshot.ts_us)} {differences}",
            why=(*filter(None, [verdict.because]), *titles(verdict.known_bugs)),
            remedy=remedy(verdict.known_bugs, context.release),
        ),
        evidence=[evidence],
        consumer=names.number(mismatch.consumer),
        consumer_name=names.name(mismatch.consumer),
        known_bugs=verdict.known_bugs,
        detail=bracket,
    )


def taken_between(snapshot: Snapshot, names: Names) -> tuple[str, dict[str, object]]:
    """The line of evidence for a snapshot, and the rows between which it was taken as details of a finding."""
    begin, end = names.own_seq(snapshot.seq_begin), names.own_seq(snapshot.seq_end)
    line = f"seq {names.seq(snapshot.seq)}: snapshot taken between seq {begin} and {end}"
    return line, {"seq_begin": begin, "seq_end": end}


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _NAMED_MAX
    return ", ".join(items[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
