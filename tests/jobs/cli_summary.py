"""What an audit found, for the tests of the command line, which run none."""

from dispatch_audit.pipeline.contract.answers import Progress, order_of
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity, worst_verdict
from dispatch_audit.pipeline.report.summary import (
    Finding,
    GroupCounts,
    RuleCounts,
    RunSummary,
    SubscriptionAnswers,
    Summary,
)

_GROUP = ("orders-0", "workers")
_FINDINGS = {
    severity: Finding(
        "single_holder",
        severity,
        *_GROUP,
        seq=1,
        ts_us=0,
        sticky_hash=7,
        key="k",
        permitted_by="E5",
        known_bug="F2",
        explanation=f"a {severity}",
        evidence=("seq 1: 7:1 dispatched",),
        what=f"a {severity}",
    )
    for severity in SEVERITIES
}


def summary_of(*found: Severity, held_up_seconds: float = 0.0) -> Summary:
    """One run with a finding of each of these severities, held up for some time."""
    order = order_of(found, 9, ())
    progress: Progress = "held_up" if held_up_seconds else "flowing"
    cause = "no_permits" if held_up_seconds else None
    counts = RuleCounts("single_holder", 9, {severity: int(severity in found) for severity in SEVERITIES})
    run = RunSummary(
        run_key="0123456789abcdef",
        inputs=("night",),
        verdict=worst_verdict(found),
        completeness=1.0,
        events_in=9,
        events_quarantined=0,
        profile="pulsar-4.2.4",
        pulsar_version="4.2.4",
        engine="Spark 4.2.0",
        from_ts_us=None,
        to_ts_us=None,
        rules=(counts,),
        findings=tuple(_FINDINGS[severity] for severity in found),
        causes=(),
        blocks=(),
        refused={},
        groups=(GroupCounts(*_GROUP, counts.rule, counts.checked, counts.findings, 1.0),),
        order=order,
        progress=progress,
        subscriptions=(SubscriptionAnswers(*_GROUP, order, progress, 9, 9, held_up_seconds, cause),),
    )
    return Summary("out", {"runs": "out/runs"}, (run,))
