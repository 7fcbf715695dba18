"""The summary as a SARIF 2.1.0 log: a run for each trace, with the rules of the contract and a result for each finding.

Source: OASIS SARIF 2.1.0: 3.11 (messages), 3.14 (runs), 3.27 (results), 3.49 (rules); GitHub, "SARIF support for code
scanning".
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.known_bugs import KnownBug, known_bugs, release_of
from dispatch_audit.pipeline.contract.profile import Profile, profile_named
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rules import RULES, RuleName
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.report.answers import answers_on
from dispatch_audit.pipeline.report.ci.levels import LEVELS
from dispatch_audit.pipeline.report.ci.locations import SourceLocation, location_of, source_locations
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.summary import Finding, RunSummary, Summary
from dispatch_audit.pipeline.report.wording import named, printable, together
from dispatch_audit.pipeline.trace import Trace, UnusableTrace

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

# In a SARIF message braces are placeholders and brackets are links.
_LITERALLY = str.maketrans({"{": "{{", "}": "}}", "[": "\\[", "]": "\\]"})


def sarif_report(summary: Summary, traces: Sequence[Trace], version: str) -> str:
    """Returns one SARIF log, without a newline at its end.

    Args:
        summary: of the audit.
        traces: the audited traces, in the order of the summary's runs.
        version: of dispatch-audit.
    """
    runs = [_run(run, trace, summary.target, version) for run, trace in zip(summary.runs, traces, strict=True)]
    if summary.unusable:
        runs.append(_not_audited(summary.unusable, version))
    # ASCII: clients choose the names of consumers and keys, which may hold any character.
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": runs}, indent=2, ensure_ascii=True)


def _run(run: RunSummary, trace: Trace, target: str, version: str) -> dict[str, Any]:
    profile = profile_named(run.profile)
    release = release_of(run.pulsar_version, profile)
    bugs = known_bugs(release, profile.dispatcher).values()
    rules = [_rule(rule, profile, [bug for bug in bugs if rule in bug.rules], release) for rule in profile.rules]
    findings = zip(run.findings, source_locations(trace, run.findings), strict=True)
    return {
        "tool": {"driver": {"name": "dispatch-audit", "version": version, "rules": rules}},
        "automationDetails": {"id": _category(run)},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, location, _fingerprint(run, finding), target, profile) for finding, location in findings
        ],
        "properties": {
            "run_key": run.run_key,
            "verdict": run.verdict,
            "order": run.order,
            "progress": run.progress,
            "held_up_seconds": run.held_up_seconds,
            "answers": {answer.question: answer.text for answer in answers_on(run)},
            "completeness": run.completeness,
            "events": run.events_in,
            "quarantined": run.events_quarantined,
            # The results are the worst findings of each rule; this counts all of them.
            "findings": {counts.rule: counts.findings for counts in run.rules if any(counts.findings.values())},
        },
    }


def _not_audited(unusable: Sequence[UnusableTrace], version: str) -> dict[str, Any]:
    """A run that was not successful: what the tool notifies of are the traces that it could not audit."""
    notifications = [
        {
            "level": "error",
            "message": {"text": printable(str(error)).translate(_LITERALLY)},
            "descriptor": {"id": "unusable_trace"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": location_of(path).uri}}}],
        }
        for path, error in unusable
    ]
    return {
        "tool": {"driver": {"name": "dispatch-audit", "version": version}},
        "automationDetails": {"id": "dispatch-audit/unusable/"},
        "invocations": [
            {
                "executionSuccessful": False,
                "exitCode": TraceError.exit_code,
                "toolExecutionNotifications": notifications,
            }
        ],
        "results": [],
    }


def _category(run: RunSummary) -> str:
    """Returns the category of a run; code scanning replaces the results of a category by those of its newest run."""
    category = f"dispatch-audit/{printable(together(run.inputs))}/"
    return category if run.window is None else f"{category}{run.window.text}/"


def _rule(rule: RuleName, profile: Profile, bugs: Sequence[KnownBug], release: Release) -> dict[str, Any]:
    exceptions = (f"- {name}: {EXCEPTIONS[name]}" for name in profile.exceptions)
    known = (f"- {bug.id}: {bug.title} {bug.remedy_for(release)}" for bug in bugs)
    help_text = [RULES[rule].statement, "", "Exceptions that permit it on this broker:", *exceptions]
    if bugs:
        help_text += ["", "Known bugs of this broker that break the rule, and what to do:", *known]
    return {
        "id": rule,
        "name": "".join(word.capitalize() for word in rule.split("_")),
        "shortDescription": {"text": RULES[rule].statement},
        "fullDescription": {"text": RULES[rule].statement},
        "help": {"text": "\n".join(help_text)},
        "properties": {"tags": ["apache-pulsar", "key-shared"]},
    }


def _result(
    finding: Finding, location: SourceLocation, fingerprint: str, target: str, profile: Profile
) -> dict[str, Any]:
    region = {} if location.line is None else {"region": {"startLine": location.line}}
    group = f"{printable(finding.topic)}, {printable(finding.subscription)}"
    suppressed = {"suppressions": [{"kind": "external", "status": "accepted"}]} if finding.accepted else {}
    return {
        **suppressed,
        "ruleId": finding.rule,
        "ruleIndex": profile.rules.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding, target)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": location.uri}, **region},
                "logicalLocations": [{"fullyQualifiedName": group, "kind": "subscription"}],
            }
        ],
        "fingerprints": {"dispatchAuditFinding/v1": fingerprint},
        # GitHub identifies the alerts of a file by this. Without it GitHub hashes the line, which a gzip file lacks.
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
        "properties": {
            "severity": finding.severity,
            "broker": finding.broker,
            "seq": finding.seq,
            "ts_us": finding.ts_us,
            "known_bug": finding.known_bug,
            "permitted_by": finding.permitted_by,
            "what": printable(finding.what),
            "against": finding.against and printable(finding.against),
            "why": [printable(why) for why in finding.why],
            "remedy": finding.remedy and printable(finding.remedy),
            "assumes": [assumed._asdict() for assumed in finding.assumes],
            "evidence": [printable(event) for event in finding.evidence],
            "finding_id": finding.finding_id,
        },
    }


def _message(finding: Finding, target: str) -> str:
    """Returns the explanation of the finding with its topic, subscription and key, and the command that shows more."""
    key = f", key {named(finding.key)}" if finding.key is not None else ""
    text = f"{printable(finding.explanation)} ({printable(finding.topic)}, {printable(finding.subscription)}{key})"
    if finding.finding_id is not None:
        text += f". Its events: {printable(explain_command(target, finding.finding_id))}"
    return text.translate(_LITERALLY)


def _fingerprint(run: RunSummary, finding: Finding) -> str:
    """Returns the identity of a finding among those of all traces."""
    return hashlib.sha256(json.dumps([list(run.inputs), finding.finding_id]).encode()).hexdigest()[:32]
