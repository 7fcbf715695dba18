"""Findings of `impossible_counter`: counters of the broker below zero, always information.

If a consumer has fewer than zero unacknowledged messages, the broker subtracted some twice. If only the total is below
the sum of its consumers, the broker subtracted more for a consumer that left than it had added (contract 4.14).
Snapshots have no total of permits; permits below zero after a leave have no other known cause.
"""

from dispatch_audit.pipeline.contract.known_bugs import remedy, titles
from dispatch_audit.pipeline.replay.snapshots.impossible_counters import ImpossibleCounter
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.reported.snapshot_findings import taken_between
from dispatch_audit.pipeline.utc import moment

_SPOKEN = {"unacked_messages": "unacknowledged messages", "available_permits": "available permits"}


def counter_findings(context: FindingContext) -> list[RuleFindings]:
    """The findings on counters below zero, in the order of the trace."""
    found = context.found
    findings = [_finding(counter, context) for counter in found.reported_impossible_counters]
    counts = severities(findings)
    counts["info"] += found.snapshots.counters.beyond
    return [RuleFindings("impossible_counter", found.snapshots.counters.checked, +counts, findings)]


def _bugs(found: ImpossibleCounter, context: FindingContext) -> tuple[str, ...]:
    if found.counter != "unacked_messages":
        return context.bugs_with("permits_below_zero_after_a_leave") if found.after_leave else ()
    if found.consumer != NOBODY or found.value >= found.of_consumers:
        return context.bugs_with("unacknowledged_below_zero")
    return context.bugs_with("total_below_that_of_consumers")


def _finding(found: ImpossibleCounter, context: FindingContext) -> JudgedFinding:
    snapshot, bugs, names = found.snapshot, _bugs(found, context), context.names
    evidence, bracket = taken_between(snapshot, names)
    of_whom = "the subscription" if found.consumer == NOBODY else names.spoken(found.consumer)
    together = f", and {found.of_consumers} for its consumers together" if found.consumer == NOBODY else ""
    return JudgedFinding(
        severity="info",
        seq=snapshot.seq,
        ts_us=snapshot.ts_us,
        explanation=FindingText(
            what=(
                f"for {of_whom} the broker reports {found.value} {_SPOKEN[found.counter]} at "
                f"{moment(snapshot.ts_us)} (seq {names.seq(snapshot.seq)}){together}"
            ),
            contrast="but",
            against="there cannot be fewer than none",
            why=titles(bugs),
            remedy=remedy(bugs, context.release),
        ),
        evidence=[evidence],
        consumer=names.number(found.consumer),
        consumer_name=names.name(found.consumer),
        known_bugs=bugs,
        detail={"counter": found.counter, "value": found.value, **bracket},
    )
