"""The report that a person reads: the verdict first, then what it rests on, then the worst of it.

Answers Q1 to Q3 and Q5 (what broke, where, with what evidence), Q8 to Q11 (who blocked whom), Q26 and Q27 (what the
verdict rests on). Everything shown is capped; the tables named at the end hold the rest.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.report.summary import Finding, RuleCounts, RunSummary, Summary, Wait
from pipeline.report.words import count, duration, moment, printable, share, together
from pipeline.tables.severity import Severity, Verdict

_VERDICT_STYLE: dict[Verdict, str] = {
    "violation": "bold red",
    "known_bug": "bold yellow",
    "not_provable": "bold yellow",
    "clean": "bold green",
}
_MEANING: dict[Verdict, str] = {
    "violation": "the contract of Key_Shared was broken",
    "known_bug": "the contract of Key_Shared was broken, in ways that match known bugs",
    "not_provable": "nothing broke the contract for certain, but the trace leaves room for it",
    "clean": "nothing broke the contract of Key_Shared",
}
_SEVERITY_STYLE: dict[Severity, str] = {
    "violation": "red",
    "known_bug": "yellow",
    "not_provable": "yellow",
    "permitted": "cyan",
    "info": "blue",
}
# Positions of the entries that an interval hung on.
_ROOTS = 3
_COLUMNS: tuple[Severity, ...] = ("violation", "known_bug", "not_provable", "permitted", "info")


def print_report(summary: Summary, console: Console) -> None:
    """Writes the report.

    Args:
        summary: at least one run.
        console: where to; it decides on colours. Sentences are left in one piece whatever its width, for grep and for
            the terminal to wrap.
    """
    for run in summary.runs:
        for part in _run(run):
            console.print(part, soft_wrap=isinstance(part, Text), markup=False, highlight=False)
        console.print()
    if len(summary.runs) > 1:
        console.print(_verdict(summary.verdict, f"all {len(summary.runs)} traces"), soft_wrap=True)
    console.print(Text(f"Tables  {printable(summary.target)}: {', '.join(summary.tables)}"), soft_wrap=True)


def _run(run: RunSummary) -> Iterator[Text | Table]:
    yield _verdict(run.verdict, together(run.inputs))
    yield _basis(run)
    yield Text()
    yield _rules(run.rules)
    for rule, findings in groupby(run.findings, key=lambda finding: finding.rule):
        yield Text()
        yield from _findings(rule, list(findings), run)
    if run.causes:
        yield Text()
        yield from _blocking(run)


def _verdict(verdict: Verdict, of: str) -> Text:
    word = Text(verdict.replace("_", " ").upper(), style=_VERDICT_STYLE[verdict])
    return word.append(f"  {printable(of)}: {_MEANING[verdict]}", style="not bold default")


def _basis(run: RunSummary) -> Text:
    """What the verdict rests on."""
    refused = ", ".join(f"{reason} {number:,}" for reason, number in run.refused.items())
    lines = [
        f"Read    {count(run.events_in, 'event')}, {run.events_quarantined:,} quarantined"
        f"{f' ({refused})' if refused else ''}; completeness {share(run.completeness)}"
    ]
    if run.from_ts_us is not None and run.to_ts_us is not None:
        length = duration((run.to_ts_us - run.from_ts_us) / 1e6)
        lines.append(f"Time    {moment(run.from_ts_us)} to {moment(run.to_ts_us)} UTC ({length})")
    broker = f"Pulsar {printable(run.pulsar_version)}, " if run.pulsar_version else ""
    lines.append(f"Broker  {broker}by the rules of profile {run.profile}")
    lines.append(f"Run     {run.run_key}")
    return Text("\n".join(lines))


def _rules(rules: Sequence[RuleCounts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rule", no_wrap=True)
    # Two words on two lines, so that the table fits 80 columns.
    for heading in ("checked", *(severity.replace("_", "\n") for severity in _COLUMNS)):
        table.add_column(heading, justify="right", vertical="bottom")
    for counts in rules:
        numbers = (counts.findings[severity] for severity in _COLUMNS)
        cells = (
            Text(f"{n:,}", style=_SEVERITY_STYLE[s] if n else "dim") for s, n in zip(_COLUMNS, numbers, strict=True)
        )
        table.add_row(counts.rule, f"{counts.checked:,}", *cells)
    return table


def _findings(rule: str, shown: Sequence[Finding], run: RunSummary) -> Iterator[Text]:
    """The worst findings of one rule, each with what proves it."""
    total = sum(next(counts for counts in run.rules if counts.rule == rule).findings.values())
    more = f", the worst {len(shown)}" if total > len(shown) else ""
    yield Text(f"{rule}: {count(total, 'finding')}{more}", style="bold")
    for finding in shown:
        reason = finding.known_bug or finding.permitted_by
        label = finding.severity.replace("_", " ") + (f" ({reason})" if reason else "")
        line = Text("  ").append(label, style=_SEVERITY_STYLE[finding.severity])
        key = f", key {printable(finding.key)}" if finding.key is not None else ""
        yield line.append(f"  {printable(finding.topic)}, {printable(finding.subscription)}{key}", style="dim")
        yield Text(f"    {printable(finding.explanation)}")
        for event in finding.evidence:
            yield Text(f"      {printable(event)}", style="dim")


def _blocking(run: RunSummary) -> Iterator[Text]:
    yield Text("Blocking", style="bold")
    for cause in run.causes:
        cost = f"{cause.message_seconds:,.1f} message-seconds"
        yield Text(f"  {cause.cause}: {count(cause.intervals, 'interval')}, {cost}")
    for wait in run.waits:
        yield Text(f"    {_wait(wait)}")


def _wait(wait: Wait) -> str:
    """Who waited for whom, how long, and on what."""
    length = "an unknown time" if wait.seconds is None else duration(wait.seconds)
    end = f"ended by {wait.ended_by}" if wait.ended_by else "still open at the end"
    named = wait.root_positions[:_ROOTS]
    more = len(wait.root_positions) - len(named)
    root = f", hung on {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""
    return (
        f"{printable(wait.explanation)}; from {moment(wait.from_ts_us)} for {length}, {end}{root} "
        f"({printable(wait.topic)}, {printable(wait.subscription)})"
    )
