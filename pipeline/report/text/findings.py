"""The rules of a run, those with findings as a table, and its worst findings with their evidence."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.contract.severity import NEED_A_LOOK, WORST_FIRST, Severity
from dispatch_audit.pipeline.report.explain_command import explain_command
from dispatch_audit.pipeline.report.summary import Finding, RuleCounts, RunSummary
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import printable

_SEVERITY_STYLE: dict[Severity, str] = {
    "violation": "red",
    "known_bug": "yellow",
    "not_provable": "yellow",
    "permitted": "cyan",
    "info": "blue",
}
# The first findings of a rule often cause the later ones.
_FINDINGS = 3


def worst_of_each(by_rule: Sequence[Finding], number: int | None) -> list[Finding]:
    """Returns the worst finding of each rule, then the second worst of each, up to a number of them.

    Permitted findings and facts are counted only, unless more are asked for.

    Args:
        by_rule: all that are known, the worst rule first, and the worst of a rule first.
        number: of findings to return; they keep the order that they had. None: a few of those that need a look.
    """
    before: Counter[str] = Counter()
    ranks = []
    for at, finding in enumerate(by_rule):
        if number is not None or finding.severity in NEED_A_LOOK:
            ranks.append((before[finding.rule], at))
            before[finding.rule] += 1
    shown = sorted(ranks)[: _FINDINGS if number is None else number]
    return [by_rule[at] for at in sorted(at for _, at in shown)]


def rules(counts: Sequence[RuleCounts]) -> Iterator[Text | Table]:
    """The counts of the rules with findings, and a line with the names of the others."""
    found = [rule for rule in counts if any(rule.findings.values())]
    if found:
        yield _counted(found)
    quiet = [rule for rule in counts if rule not in found]
    names = {
        "Nothing found by": [rule.rule for rule in quiet if rule.checked],
        "nothing to check for": [rule.rule for rule in quiet if not rule.checked],
    }
    line = "; ".join(f"{what} {', '.join(of)}" for what, of in names.items() if of)
    if line:
        yield Text(f"{line[:1].upper()}{line[1:]}")


def _counted(rules: Sequence[RuleCounts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rule", no_wrap=True)
    # A heading of two words takes two lines, so that the table fits 80 columns.
    for heading in ("checked", *(severity.replace("_", "\n") for severity in WORST_FIRST)):
        table.add_column(heading, justify="right", vertical="bottom")
    for counts in rules:
        numbers = (counts.findings[severity] for severity in WORST_FIRST)
        cells = (
            Text(f"{n:,}", style=_SEVERITY_STYLE[s] if n else "dim") for s, n in zip(WORST_FIRST, numbers, strict=True)
        )
        table.add_row(counts.rule, f"{counts.checked:,}", *cells)
    return table


def findings(shown: Sequence[Finding], run: RunSummary, target: str, topics: TopicNames) -> Iterator[Text]:
    """The worst findings, each with its evidence and the command that shows it event by event."""
    total = sum(sum(counts.findings.values()) for counts in run.rules)
    more = f", {len(shown):,} of {total:,} (--findings N shows N)" if total > len(shown) else ""
    yield Text(f"{'The worst finding' if len(shown) == 1 else 'The worst findings'}{more}", style="bold")
    for finding in shown:
        reason = finding.known_bug or finding.permitted_by
        label = finding.severity.replace("_", " ") + (f" ({reason})" if reason else "")
        line = Text("  ").append(label, style=_SEVERITY_STYLE[finding.severity])
        key = "" if finding.key is None else f", key {printable(finding.key)}"
        yield line.append(f"  {finding.rule}{key}{topics.behind(finding, ', {}')}", style="dim")
        yield Text(f"    {printable(finding.explanation)}")
        for event in finding.evidence:
            yield Text(f"      {printable(event)}", style="dim")
        if finding.finding_id is not None:
            yield Text(f"      {printable(explain_command(target, finding.finding_id))}", style="dim")
