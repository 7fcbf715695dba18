"""The facts about clients: what they do that makes entries come again, wait, or go to one consumer."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from dispatch_audit.pipeline.report.summary import Finding, RunSummary
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import printable

# One for each rule; the table has the others.
_SHOWN: Final = 5


def facts(found: Sequence[Finding], run: RunSummary, topics: TopicNames) -> Iterator[Text | Labelled]:
    """What clients do, with what follows and what helps; nothing where there is no fact.

    Args:
        found: the first fact of each rule.
        run: which has how many more.
        topics: how the report names topics.
    """
    numbers = {counts.rule: counts.findings["info"] for counts in run.rules}
    shown = found[:_SHOWN]
    if shown:
        yield Text()
        yield Labelled("", Text("Facts about clients", style="bold"), column=0)
    for finding in shown:
        others = numbers[finding.rule] - 1
        more = f" (and {others:,} more of {finding.rule})" if others else ""
        yield Labelled("", f"{printable(finding.what)}{more}{topics.suffix(finding)}", column=2)
        for part in filter(None, (finding.against, *finding.why, finding.remedy)):
            yield Labelled("", printable(part), column=4)
