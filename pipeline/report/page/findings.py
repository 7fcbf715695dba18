"""The incidents of a page, and the worst findings of each rule with their evidence and the events around them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.contract.severity import SEVERITIES
from dispatch_audit.pipeline.report.charts.hash_timeline import hash_story
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.incidents import in_one_sentence, incidents
from dispatch_audit.pipeline.report.page.model import FindingView, IncidentView, RuleView
from dispatch_audit.pipeline.report.page.rows import PageRows
from dispatch_audit.pipeline.report.summary import Finding, RuleCounts, RunSummary
from dispatch_audit.pipeline.report.wording import moment, printable, sentence

FINDINGS_MAX = 200
# Longer texts come from clients that choose long names; the table has them in full.
_TEXT_MAX = 4_000
_EVIDENCE_MAX = 12


def shown_findings(run: RunSummary) -> list[Finding]:
    """Returns the findings of the page: the worst severity first, and the rules of one severity by turns.

    After all others come those that the baseline accepts.
    """
    turns: Counter[tuple[str, str]] = Counter()
    ranked = []
    for finding in run.findings:
        turn = turns[finding.rule, finding.severity]
        turns[finding.rule, finding.severity] += 1
        ranked.append((finding.accepted, -SEVERITIES.index(finding.severity), turn, finding.rule, finding))
    ranked.sort(key=lambda rank: rank[:4])
    # A hundred proven breaks must not hide that something else could not be proven, so the turns are kept.
    return [finding for *_, finding in ranked[:FINDINGS_MAX]]


def finding_views(shown: Sequence[Finding], rows: PageRows, target: str) -> tuple[FindingView, ...]:
    """Returns the findings as the page shows them, in the order given."""
    ranges = _by_group(rows.ranges)
    drained = _by_group(rows.drained)
    return tuple(
        _view(number, finding, ranges[_group(asdict(finding))], drained[_group(asdict(finding))], target)
        for number, finding in enumerate(shown)
    )


def incident_views(shown: Sequence[Finding], views: Sequence[FindingView]) -> tuple[IncidentView, ...]:
    """Returns the incidents of findings, in their order; those of accepted findings are incidents of their own.

    Args:
        shown: the findings.
        views: what the page shows of each.
    """
    anchors = {id(finding): view.anchor for finding, view in zip(shown, views, strict=True)}
    found = [
        incident
        for accepted in (False, True)
        for incident in incidents(finding for finding in shown if finding.accepted == accepted)
    ]
    return tuple(
        IncidentView(
            rule=incident.rule,
            severity=incident.severity,
            text=sentence(_shown(in_one_sentence(incident))),
            findings=len(incident.findings),
            anchor=anchors[id(incident.worst)],
            accepted=incident.worst.accepted,
        )
        for incident in found
    )


def _by_group(rows: Sequence[dict[str, Any]]) -> defaultdict[tuple[Any, ...], list[dict[str, Any]]]:
    found: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[_group(row)].append(row)
    return found


def _group(row: dict[str, Any]) -> tuple[Any, ...]:
    """The subscription of a row, and its recorder, because each recorder numbers consumers and seqs."""
    return row["topic"], row["subscription"], row["broker"]


def _view(
    number: int, finding: Finding, ranges: list[dict[str, Any]], drained: list[dict[str, Any]], target: str
) -> FindingView:
    at_hash = finding.sticky_hash
    story = []
    if at_hash is not None and finding.consumer is not None:
        story = hash_story(
            asdict(finding),
            [row for row in ranges if row["range_start"] <= at_hash <= row["range_end"]],
            [row for row in drained if row["sticky_hash"] == at_hash],
        )
    reason = finding.reason
    subscription = f"{finding.topic}, {finding.subscription}"
    accepted = "accepted" if finding.accepted else ""
    key, identity = finding.key or "", finding.finding_id or ""
    searched = (finding.rule, finding.severity, accepted, reason, finding.explanation, key, subscription, identity)
    return FindingView(
        anchor=f"finding-{finding.finding_id or number}",
        rule=finding.rule,
        severity=finding.severity,
        reason=reason,
        what=sentence(_shown(finding.what)),
        against=_shown(finding.against or ""),
        why=tuple(map(_shown, finding.why)),
        assumes=tuple(_shown(assumed.text) for assumed in finding.assumes),
        remedy=_shown(finding.remedy or ""),
        key=None if finding.key is None else printable(finding.key),
        sticky_hash="" if at_hash is None else str(at_hash),
        at=f"{moment(finding.ts_us)} UTC, {finding.row}",
        subscription=printable(subscription),
        evidence=tuple(map(_shown, finding.evidence[:_EVIDENCE_MAX])),
        command=explain_command(target, finding.finding_id) if finding.finding_id else "",
        accepted=finding.accepted,
        search=printable(" ".join(searched)).lower()[:_TEXT_MAX],
        story=story,
    )


def _shown(text: str) -> str:
    return printable(text)[:_TEXT_MAX]


def rule_views(rules: Sequence[RuleCounts]) -> tuple[RuleView, ...]:
    """Returns the rules with findings, the worst first."""
    found = [counts for counts in rules if any(counts.findings.values())]
    statements: dict[str, str] = {str(name): rule.statement for name, rule in RULES.items()}
    views = [RuleView(c.rule, statements.get(c.rule, ""), c.checked, c.findings) for c in found]
    return tuple(sorted(views, key=lambda view: tuple(-view.findings[s] for s in reversed(SEVERITIES))))
