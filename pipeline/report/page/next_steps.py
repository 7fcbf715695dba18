"""What to do next: about the worst finding, about known bugs, about what held messages up, and about refused rows."""

from collections.abc import Iterator, Sequence

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import lacking, missing_in, to_record
from dispatch_audit.pipeline.report.page.model import FindingView
from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.report.text.next_step import (
    CORRECT_THE_CLAIM,
    contradicted_claim,
    events_of,
    is_worth_a_look,
    look_at,
    unusable_rows,
    worth_a_look,
)
from dispatch_audit.pipeline.report.wording import printable, sentence


def next_steps(run: RunSummary, findings: Sequence[FindingView], target: str) -> tuple[tuple[str, str], ...]:
    """Returns sentences with the anchor of the place that each is about; `target` is where the tables are."""
    return tuple(_steps(run, findings, target)) or (("Nothing to do: entries waited briefly or not at all.", ""),)


def _steps(run: RunSummary, findings: Sequence[FindingView], target: str) -> Iterator[tuple[str, str]]:
    missing = missing_in(run)
    if not missing and contradicted_claim(run) is not None:
        yield sentence(CORRECT_THE_CLAIM), "findings"
    elif is_worth_a_look(run, unproven=not missing) and findings:
        worst = findings[0]
        yield f"Look at the worst finding ({worst.rule}), and the events around it.", worst.anchor
    for remedy in dict.fromkeys(finding.remedy for finding in findings if finding.severity == "known_bug"):
        if remedy:
            yield remedy, "findings"
    if missing:
        yield f"Record {to_record(missing)}: this trace does not show {lacking(missing)}.", "limits"
    if block := worth_a_look(run):
        events = events_of(block, run, target)
        yield sentence(printable(look_at(block))) + (f" What it did: {events}" if events else ""), "blocking"
    if refused := unusable_rows(run):
        yield f"See why {count(refused, 'row')} of the trace could not be used.", "quarantine"
    if run.completeness < 1:
        yield "See what the trace could not show.", "limits"
