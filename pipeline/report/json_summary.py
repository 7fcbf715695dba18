"""The summary as one JSON object, for programs. Its names are a public interface (docs/CI.md)."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from dispatch_audit.pipeline.contract.severity import WORST_FIRST
from dispatch_audit.pipeline.report.answers import answers_on
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.keys import keyless_line
from dispatch_audit.pipeline.report.summary import (
    CauseTotals,
    Finding,
    RuleCounts,
    RunSummary,
    SubscriptionAnswers,
    Summary,
)


def json_summary(summary: Summary) -> str:
    """Returns one JSON object, without a newline at its end.

    `rules` and `blocking` are totals over all traces; `traces` has those of each trace, in the order given. `unusable`
    has the traces that could not be audited, and `stale` the lines of the baseline whose findings are gone.
    """
    return json.dumps(
        {
            "verdict": summary.verdict,
            "order": summary.order,
            "progress": summary.progress,
            "held_up_seconds": summary.held_up_seconds,
            "events": summary.events_in,
            "quarantined": summary.events_quarantined,
            "completeness": summary.completeness,
            "accepted": sum(run.accepted for run in summary.runs),
            "stale": [stale.model_dump() for stale in summary.stale],
            "unusable": [{"path": path, "reason": str(error)} for path, error in summary.unusable],
            "rules": _rules(summary.rules),
            "blocking": _blocking(summary.causes),
            "tables": summary.tables,
            "traces": [_trace(run, summary.target) for run in summary.runs],
        },
        indent=2,
        # Clients choose the names of consumers and keys, which may hold any character.
        ensure_ascii=True,
    )


def _trace(run: RunSummary, target: str) -> dict[str, Any]:
    return {
        "run_key": run.run_key,
        "inputs": list(run.inputs),
        "verdict": run.verdict,
        "order": run.order,
        "progress": run.progress,
        "held_up_seconds": run.held_up_seconds,
        "answers": {answer.question: answer.text for answer in answers_on(run)},
        "subscriptions": [_subscription(subscription) for subscription in run.subscriptions],
        "events": run.events_in,
        "quarantined": run.events_quarantined,
        "quarantined_by_reason": run.refused,
        "completeness": run.completeness,
        "accepted": run.accepted,
        "profile": run.profile,
        "pulsar_version": run.pulsar_version,
        "judged_as": run.judged_as,
        "recorded_by": run.recorded_by,
        "keys": "digest" if run.keys_digested else "plain",
        "sample": None if run.sample is None else {"share": run.sample[0], "salt": run.sample[1]},
        "chosen": list(run.chosen),
        "engine": run.engine,
        "from_ts_us": run.from_ts_us,
        "to_ts_us": run.to_ts_us,
        "starts_from": run.starts_from,
        "window_from_us": None if run.window is None else run.window.from_us,
        "window_to_us": None if run.window is None else run.window.to_us,
        "events_late": run.events_late,
        "rules": _rules(run.rules),
        "findings": [_finding(finding, target) for finding in run.findings],
        "blocking": _blocking(run.causes),
        "intervals_left_out": run.intervals_left_out,
        "incomplete": [asdict(partition) for partition in run.incomplete],
        "hot_keys": [asdict(key) for key in run.hot_keys],
        "mixed_producers": [asdict(producer) for producer in run.mixed_producers],
        "keyless_producers": [
            {**asdict(producer), "said": keyless_line(producer)} for producer in run.keyless_producers
        ],
    }


def _subscription(answers: SubscriptionAnswers) -> dict[str, Any]:
    of_coverage = asdict(answers)
    return {"order" if name == "order_verdict" else name: value for name, value in of_coverage.items()}


def _finding(finding: Finding, target: str) -> dict[str, Any]:
    command = None if finding.finding_id is None else explain_command(target, finding.finding_id)
    return {**asdict(finding), "assumes": [assumed._asdict() for assumed in finding.assumes], "explain": command}


def _rules(rules: Iterable[RuleCounts]) -> dict[str, dict[str, int]]:
    return {
        c.rule: {
            "checked": c.checked,
            **{name: c.findings[name] for name in WORST_FIRST},
            "accepted": sum(c.accepted.values()),
        }
        for c in rules
    }


def _blocking(causes: Iterable[CauseTotals]) -> dict[str, dict[str, float]]:
    return {c.cause: {"intervals": c.intervals, "message_seconds": round(c.message_seconds, 6)} for c in causes}
