"""The summary as JUnit XML: a test suite for each trace, a test case for each rule and answer on each subscription.

A trace that could not be audited is a suite with one error.

A case fails if what it is about makes the command line exit with 1. A rule that could not be judged, and an answer that
is not provable, is skipped with the reason and never passes: a passed case means that the rule was checked.
"""

from collections.abc import Iterator, Sequence

from junitparser import Error, Failure, JUnitXml, Skipped, SystemOut, TestCase, TestSuite

from dispatch_audit.pipeline.contract.fail_on import FailOn
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import answer_on, answers_on, line_of
from dispatch_audit.pipeline.report.ci.failing import found_in, order_failed, progress_failed, rule_failed
from dispatch_audit.pipeline.report.ci.levels import tally_of
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.summary import Finding, GroupCounts, RunSummary, SubscriptionAnswers, Summary
from dispatch_audit.pipeline.report.wording import named, printable, share, together
from dispatch_audit.pipeline.trace import UnusableTrace

# The beginnings of answers that say nothing about the broker.
_NO_ANSWER = ("not provable", "nothing sent")
# Findings shown in a test case; the table has the rest.
_SHOWN = 5


def junit_report(summary: Summary, fail_on: FailOn) -> bytes:
    """Returns one XML document, in UTF-8.

    Args:
        summary: of the audit.
        fail_on: what is a failure.
    """
    report = JUnitXml("dispatch-audit")
    # Not `add_testsuite`, which merges two suites that look alike.
    report.extend(_suite(run, summary.target, fail_on) for run in summary.runs)
    report.extend(map(_not_audited, summary.unusable))
    report.update_statistics()
    document: bytes = report.tostring()
    return document


def _suite(run: RunSummary, target: str, fail_on: FailOn) -> TestSuite:
    # CI systems identify tests by name and keep the first of equal ones, so that windows need names of their own.
    window = "" if run.window is None else f", {run.window.text}"
    suite = TestSuite(f"{printable(together(run.inputs))}{window}")
    for name, value in (
        ("run_key", run.run_key),
        ("verdict", run.verdict),
        *((answer.question, line_of(answer)) for answer in answers_on(run)),
        ("completeness", share(run.completeness)),
        ("events", str(run.events_in)),
        ("quarantined", str(run.events_quarantined)),
        ("pulsar_version", printable(run.pulsar_version or "")),
        ("profile", run.profile),
        ("engine", run.engine or ""),
    ):
        suite.add_property(name, value)
    by_case: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in run.findings:
        by_case.setdefault((finding.rule, finding.topic, finding.subscription), []).append(finding)
    suite.add_testcases(
        [
            _case(group, by_case.get((group.rule, group.topic, group.subscription), []), target, fail_on)
            for group in run.groups
        ]
    )
    suite.add_testcases([case for answers in run.subscriptions for case in _answers(answers, fail_on)])
    return suite


def _not_audited(unusable: UnusableTrace) -> TestSuite:
    """A suite with one error, which CI systems tell apart from failures."""
    case = TestCase("trace", printable(unusable.path))
    case.result = Error(printable(str(unusable.error)), "unusable")
    suite = TestSuite(printable(unusable.path))
    suite.add_testcase(case)
    return suite


def _answers(answers: SubscriptionAnswers, fail_on: FailOn) -> Iterator[TestCase]:
    """Yields a case for each of the two answers on a subscription; findings fail the cases of their rules."""
    order, progress = answer_on(answers)
    yield _answered("order", order, answers, failed=order_failed(answers, fail_on))
    yield _answered("progress", progress, answers, failed=progress_failed(answers, fail_on))


def _answered(question: str, said: str, answers: SubscriptionAnswers, *, failed: bool) -> TestCase:
    case = TestCase(question, f"{printable(answers.topic)}, {printable(answers.subscription)}")
    if failed:
        case.result = Failure(said, question)
    elif said.startswith(_NO_ANSWER):
        case.result = Skipped(said)
    case.append(SystemOut(said))
    return case


def _case(group: GroupCounts, findings: Sequence[Finding], target: str, fail_on: FailOn) -> TestCase:
    case = TestCase(group.rule, f"{printable(group.topic)}, {printable(group.subscription)}")
    found = found_in(group)
    numbers = tally_of(group)
    open_findings = [finding for finding in findings if not finding.accepted]
    if rule_failed(group, fail_on):
        # The findings are sorted with the worst first.
        failure = Failure(f"{numbers}: {_sentence(open_findings)}", found[-1])
        failure.text = _with_evidence(open_findings, target)
        case.result = failure
    elif reason := _unjudged(group, open_findings):
        case.result = Skipped(reason)
    if numbers:
        case.append(SystemOut(f"{count(group.checked, 'check')}: {numbers}"))
    return case


def _unjudged(group: GroupCounts, findings: Sequence[Finding]) -> str:
    """Returns why the rule proves nothing about the subscription; empty if it does."""
    if group.completeness == 0:
        return "nothing in the trace could be judged"
    if not group.checked:
        return "the trace has nothing to apply the rule to"
    severity: Severity = "not_provable"
    number = group.findings[severity] - group.accepted.get(severity, 0)
    doubted = [finding for finding in findings if finding.severity == severity]
    return f"{number:,} not provable: {_sentence(doubted)}" if number else ""


def _sentence(findings: Sequence[Finding]) -> str:
    return f"{_label(findings[0])}: {printable(findings[0].explanation)}" if findings else "see table violations"


def _with_evidence(findings: Sequence[Finding], target: str) -> str:
    lines: list[str] = []
    for finding in findings[:_SHOWN]:
        lines.append(f"{_label(finding)}:")
        lines += [f"  {label}: {printable(text)}" for label, texts in finding.parts.items() for text in texts]
        lines += [f"  {printable(event)}" for event in finding.evidence]
        if finding.finding_id is not None:
            lines.append(f"  {printable(explain_command(target, finding.finding_id))}")
    return "\n".join(lines)


def _label(finding: Finding) -> str:
    label = finding.severity.replace("_", " ") + (f" ({printable(finding.reason)})" if finding.reason else "")
    key = f", key {named(finding.key)}" if finding.key is not None else ""
    return f"{label}{key}"
