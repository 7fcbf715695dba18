"""Findings on what the broker reports: snapshots, counters and clocks that contradict the trace, settings it has not.

If a consumer has fewer than zero unacknowledged messages, the broker subtracted some twice. If only the total is below
the sum of its consumers, the broker subtracted more for a consumer that left than it had added (contract 4.14).
Snapshots have no total of permits; permits below zero after a leave have no other known cause.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from dispatch_audit.pipeline.contract.known_bugs import Symptom
from dispatch_audit.pipeline.contract.rules import RULES, RuleName
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.evidence.settings_evidence import Contradiction
from dispatch_audit.pipeline.replay.snapshots.comparison import ImpossibleCounter, Mismatch
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.verdicts.alibis import doubt_of
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import (
    UNEXPLAINED,
    FindingVerdict,
    JudgedFinding,
    RuleFindings,
    not_provable,
    of_rule,
    severities,
)
from dispatch_audit.pipeline.utc import moment

_NAMED_MAX = 10
_SPOKEN = {"unacked_messages": "unacknowledged messages", "available_permits": "available permits"}
# By rule: the noun for what differs, and the clauses for what only the broker has and for what only the trace has.
_DIFFERENCES: Final[Mapping[RuleName, tuple[tuple[str, str], tuple[str, str]]]] = {
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


def mismatch_findings(context: FindingContext) -> list[RuleFindings]:
    """The mismatches between snapshots and the replay, by rule, in the order of the trace."""
    found, comparison = context.found, context.found.snapshots.comparison
    by_rule = []
    for rule in _DIFFERENCES:
        reported = (m for m in comparison.mismatches if found.report_range.contains(m.snapshot.seq))
        findings = [_mismatch_finding(m, rule, context) for m in reported if m.rule == rule]
        counts = severities(findings)
        # Mismatches beyond the limit were only counted; without evidence no reason for a milder verdict is known.
        unproven = found.membership.owners.unknown or (rule == "draining_mismatch" and bool(_never_recorded(context)))
        counts["not_provable" if unproven else "violation"] += comparison.beyond[rule]
        by_rule.append(RuleFindings(rule, comparison.compared[rule], +counts, findings))
    return by_rule


def _never_recorded(context: FindingContext) -> str:
    """Why the trace does not show which hashes drain, as a clause: it has no row of some kind; empty: it shows it."""
    if not context.found.dispatcher.checked[DISPATCHES]:
        return "the trace has no row of a dispatch, so it does not show what consumers held"
    return doubt_of(context, NEVER, "acks")


def _mismatch_finding(mismatch: Mismatch, rule: RuleName, context: FindingContext) -> JudgedFinding:
    noun, templates = _DIFFERENCES[rule]
    of_draining, verdict = rule == "draining_mismatch", UNEXPLAINED
    differences = "; ".join(
        template.format(count(len(items), *noun), _listed(items))
        for template, items in zip(templates, (mismatch.missing, mismatch.surplus), strict=True)
        if items
    )
    what = f"for {context.names.spoken(mismatch.consumer)} at {moment(mismatch.snapshot.ts_us)} {differences}"
    if because := (
        mismatch.undecided
        or doubt_of(context, mismatch.snapshot.seq, "dispatcher", "leaves")
        or (_never_recorded(context) if of_draining else "")
    ):
        verdict = not_provable(because)
    elif of_draining and mismatch.missing and not mismatch.surplus:
        verdict = context.explained("", "reported_as_draining_still")
    return _of_snapshot(mismatch.snapshot, what, verdict, context, consumer=mismatch.consumer)


def _of_snapshot(
    snapshot: Snapshot, what: str, verdict: FindingVerdict, context: FindingContext, **parts: Any
) -> JudgedFinding:
    """A finding on a snapshot, with the rows between which it was taken."""
    begin, end = map(context.names.own_seq, (snapshot.seq_begin, snapshot.seq_end))
    evidence = [f"seq {context.names.seq(snapshot.seq)}: snapshot taken between seq {begin} and {end}"]
    detail = {**parts.pop("detail", {}), "seq_begin": begin, "seq_end": end}
    return context.finding(snapshot, what, verdict, evidence, detail=detail, **parts)


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _NAMED_MAX
    return ", ".join(items[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def counter_findings(context: FindingContext) -> list[RuleFindings]:
    """The findings on counters below zero, in the order of the trace."""
    found = context.found
    reported = (c for c in found.snapshots.counters.found if found.report_range.contains(c.snapshot.seq))
    findings = [_counter_finding(counter, context) for counter in reported]
    counts = severities(findings)
    counts["info"] += found.snapshots.counters.beyond
    return [RuleFindings("impossible_counter", found.snapshots.counters.checked, +counts, findings)]


def _counter_finding(found: ImpossibleCounter, context: FindingContext) -> JudgedFinding:
    snapshot, names, of_all = found.snapshot, context.names, found.consumer == NOBODY
    symptom: Symptom = "permits_below_zero_after_a_leave"
    if found.counter == "unacked_messages":
        of_total = of_all and found.value < found.of_consumers
        symptom = "total_below_that_of_consumers" if of_total else "unacknowledged_below_zero"
    known = found.counter == "unacked_messages" or found.after_leave
    together = f", and {found.of_consumers} for its consumers together" if of_all else ""
    return _of_snapshot(
        snapshot,
        f"for {'the subscription' if of_all else names.spoken(found.consumer)} the broker reports {found.value} "
        f"{_SPOKEN[found.counter]} at {moment(snapshot.ts_us)} (seq {names.seq(snapshot.seq)}){together}",
        FindingVerdict("info", known_bugs=context.bugs_with(symptom) if known else ()),
        context,
        contrast="but",
        against="there cannot be fewer than none",
        consumer=found.consumer,
        detail={"counter": found.counter, "value": found.value},
    )


def settings_findings(context: FindingContext) -> list[RuleFindings]:
    """The contradicted settings, in the order of the trace."""
    found = context.found
    reported = (c for c in found.loop.settings.found.values() if found.report_range.contains(c.at.seq))
    findings = [_setting_finding(contradiction, context) for contradiction in reported]
    return [of_rule("settings_mismatch", found.loop.settings.checked, findings)]


def _setting_finding(contradiction: Contradiction, context: FindingContext) -> JudgedFinding:
    claim, at, names = contradiction.claim, contradiction.at, context.names
    shown = contradiction.value or "another value"
    what = f"trace.json claims {claim.name} = {claim.text}"
    if claim.where == "default":
        what = f"trace.json does not give {claim.name}, whose default on this release is {claim.text}"
    elif claim.seq is not None:
        what = f"the settings at seq {names.seq(claim.seq)} claim {claim.name} = {claim.text}"
    return context.finding(
        at,
        what,
        not_provable(contradiction.judged),
        [f"seq {names.seq(seq)}: {text}" for seq, text in contradiction.evidence],
        contrast="but",
        against=f"the broker shows {shown} at {moment(at.ts_us)} (seq {names.seq(at.seq)}): {contradiction.shown}",
        detail={
            "setting": claim.name,
            "claimed": claim.text,
            "claimed_by": claim.where,
            "claimed_seq": None if claim.seq is None else names.own_seq(claim.seq),
            "shown": contradiction.value or None,
        },
    )


def clocks_apart(context: FindingContext) -> Iterator[RuleFindings]:
    """The transfers between clocks that are apart; nothing where a topic has one recorder."""
    recorders = context.recorders
    if not recorders.terms:
        return
    until_us = {term.first: before.until_us for before, term in pairwise(recorders.terms)}
    found = [
        context.finding(
            TracePoint(apart.place, until_us[apart.place]),
            recorders.spoken_clocks(apart),
            not_provable(
                f"their rows are behind the stamps of the producer {apart.producer} by times that differ by as much, "
                "so nothing is said of how long anything took that began on the one and ended on the other"
            ),
            [f"seq {context.names.seq(apart.place)}: first row of the next owner"],
            remedy=RULES["clocks_apart"].remedy,
            detail={"ahead_seconds": apart.ahead_us / 1e6, "producer": apart.producer},
        )
        for apart in recorders.apart
    ]
    yield of_rule("clocks_apart", len(until_us), found)
