"""Whether what an audit found makes the command fail, as `--fail-on` asks."""

from dispatch_audit.pipeline.contract.fail_on import FailOn
from dispatch_audit.pipeline.contract.rules import about
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.report.summary import GroupCounts, RuleCounts, SubscriptionAnswers, Summary


def failed(summary: Summary, fail_on: FailOn) -> bool:
    """Whether a condition holds for one of the runs."""
    return any(rule_failed(counts, fail_on) for run in summary.runs for counts in run.rules) or any(
        answers_failed(answers, fail_on) for run in summary.runs for answers in run.subscriptions
    )


def rule_failed(counts: RuleCounts | GroupCounts, fail_on: FailOn) -> bool:
    """Whether the findings of a rule make the command fail."""
    return fail_on.by_findings(found_in(counts), about(counts.rule), counts.rule)


def answers_failed(answers: SubscriptionAnswers, fail_on: FailOn) -> bool:
    """Whether the answers on a subscription make the command fail, whatever its findings do."""
    return order_failed(answers, fail_on) or progress_failed(answers, fail_on)


def order_failed(answers: SubscriptionAnswers, fail_on: FailOn) -> bool:
    """Whether the answer about order makes the command fail, because nothing could be judged."""
    return fail_on.by_findings(_unproven(answers.order_verdict), "order")


def progress_failed(answers: SubscriptionAnswers, fail_on: FailOn) -> bool:
    """Whether the answer about progress makes the command fail: held up for long, or not provable."""
    return fail_on.by_waiting(answers.held_up_seconds) or fail_on.by_findings(_unproven(answers.progress), "progress")


def found_in(counts: RuleCounts | GroupCounts) -> list[Severity]:
    """Returns the severities of the findings of a rule that no baseline accepts, the mildest first."""
    return [severity for severity in SEVERITIES if counts.findings[severity] > counts.accepted.get(severity, 0)]


def _unproven(answer: str) -> tuple[Severity, ...]:
    return ("not_provable",) if answer == "not_provable" else ()
