"""The report as text: the verdict first, then the rows read and judged, then the worst findings and waits.

Answers Q1 to Q3 and Q5 (what broke, where, with what evidence), Q8 to Q11 (who blocked whom), Q18 (hot keys), Q26 and
Q27 (what the verdict rests on), Q29 (batches of several keys). Every list is capped; the tables named at the end hold
the rest.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.contract.severity import WORST_FIRST, RunVerdict, Severity
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import (
    Finding,
    HotKey,
    MixedProducer,
    Partition,
    RuleCounts,
    RunSummary,
    Summary,
    Wait,
)
from dispatch_audit.pipeline.report.wording import duration, moment, printable, share, together

_VERDICT_STYLE: dict[RunVerdict, str] = {
    "violation": "bold red",
    "known_bug": "bold yellow",
    "not_provable": "bold yellow",
    "clean": "bold green",
}
_MEANING: dict[RunVerdict, str] = {
    "violation": "the contract of Key_Shared was broken",
    "known_bug": "the contract of Key_Shared was broken, in ways that match known bugs",
    "not_provable": "no violation is proven, but the trace cannot rule one out",
    "clean": "nothing broke the contract of Key_Shared",
}
_SEVERITY_STYLE: dict[Severity, str] = {
    "violation": "red",
    "known_bug": "yellow",
    "not_provable": "yellow",
    "permitted": "cyan",
    "info": "blue",
}
# A window that starts with the log needs no words.
_STARTS_FROM: dict[str | None, str] = {
    "state": ", from where the window before ended",
    "censored": "; what was open when it began is not known",
}
# Later findings of a rule are often consequences of the first few.
_FINDINGS = 5
# Oldest unacknowledged entries shown for an interval.
_ROOTS = 3


def print_report(summary: Summary, console: Console) -> None:
    """Writes the report.

    Args:
        summary: at least one run.
        console: where to write; it decides on colours. Sentences are not wrapped, whatever its width: grep needs them
            whole, and a terminal wraps them.
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
    yield from map(_incomplete, run.incomplete)
    yield Text()
    yield _rules(run.rules)
    for rule, findings in groupby(run.findings, key=lambda finding: finding.rule):
        yield Text()
        yield from _findings(rule, list(islice(findings, _FINDINGS)), run)
    if run.causes:
        yield Text()
        yield from _blocking(run)
    if run.hot_keys:
        yield Text()
        yield Text("Hot keys", style="bold")
        yield from map(_hot_key, run.hot_keys)
    if run.mixed_producers:
        yield Text()
        yield Text("Batches of several keys; the broker routes a batch by the key of its first message", style="bold")
        yield from map(_mixed_producer, run.mixed_producers)


def _verdict(verdict: RunVerdict, of: str) -> Text:
    word = Text(verdict.replace("_", " ").upper(), style=_VERDICT_STYLE[verdict])
    return word.append(f"  {printable(of)}: {_MEANING[verdict]}", style="not bold default")


def _basis(run: RunSummary) -> Text:
    """The lines on what the verdict rests on: rows, time, window and broker."""
    refused = ", ".join(f"{reason} {number:,}" for reason, number in run.refused.items())
    lines = [
        f"Read    {count(run.events_in, 'event')}, {run.events_quarantined:,} quarantined"
        f"{f' ({refused})' if refused else ''}; completeness {share(run.completeness)}"
    ]
    if run.from_ts_us is not None and run.to_ts_us is not None:
        length = duration((run.to_ts_us - run.from_ts_us) / 1e6)
        lines.append(f"Time    {moment(run.from_ts_us)} to {moment(run.to_ts_us)} UTC ({length})")
    if run.window is not None:
        lines.append(f"Window  {run.window.text}{_STARTS_FROM.get(run.starts_from, '')}")
    broker = f"Pulsar {printable(run.pulsar_version)}, " if run.pulsar_version else ""
    lines.append(f"Broker  {broker}by the rules of profile {run.profile}")
    lines.append(f"Run     {run.run_key}{f', on {run.engine}' if run.engine else ''}")
    return Text("\n".join(lines))


def _rules(rules: Sequence[RuleCounts]) -> Table:
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


def _findings(rule: str, shown: Sequence[Finding], run: RunSummary) -> Iterator[Text]:
    """The worst findings of one rule, each with its evidence."""
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
    if run.intervals_left_out:
        left_out = count(run.intervals_left_out, "interval")
        yield Text(f"  {left_out} of lower cost left out (raise blocking.intervals_max to keep more)")
    for wait in run.waits:
        yield Text(f"    {_wait(wait)}")


def _wait(wait: Wait) -> str:
    """The line on one wait: who waited for whom, how long, and behind which entries."""
    length = "an unknown time" if wait.seconds is None else duration(wait.seconds)
    end = f"ended by {wait.ended_by}" if wait.ended_by else "still open at the end"
    named = wait.root_positions[:_ROOTS]
    more = len(wait.root_positions) - len(named)
    root = f", oldest unacknowledged {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""
    return (
        f"{printable(wait.explanation)}; from {moment(wait.from_ts_us)} for {length}, {end}{root} "
        f"({printable(wait.topic)}, {printable(wait.subscription)})"
    )


def _incomplete(partition: Partition) -> Text:
    """The line on why a subscription could not be judged in full."""
    numbers = {
        "from before its state was known": partition.rows_censored,
        "refused": partition.rows_refused,
        "dispatched while the owner of their hash was undecided": partition.dispatches_undecided,
        "dispatched without a known key": partition.dispatches_without_key,
    }
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in numbers.items() if number)
    line = f"        {share(partition.completeness)} of {count(partition.rows, 'row')} judged ({reasons})"
    return Text(f"{line}: {printable(partition.topic)}, {printable(partition.subscription)}")


def _hot_key(key: HotKey) -> Text:
    """The line on one hot key, with the number of keys that share its hash."""
    name = "a key that is not recorded" if key.key is None else f"key {printable(key.key)}"
    with_it = f" with {count(key.keys_on_hash - 1, 'other key')}" if key.keys_on_hash > 1 else ""
    least = "at least " if key.dispatched_error_max else ""
    part = "" if key.dispatched_share is None else f" ({share(key.dispatched_share)})"
    pending = "" if key.unacked_max is None else f"; up to {count(key.unacked_max, 'entry', 'entries')} pending at once"
    return Text(
        f"  {name} on hash {key.sticky_hash}{with_it}: {least}{count(key.dispatched, 'dispatch', 'dispatches')}{part}"
        f"{pending}; its hash waited {duration(key.blocked_seconds)} "
        f"({printable(key.topic)}, {printable(key.subscription)})"
    )


def _mixed_producer(producer: MixedProducer) -> Text:
    name = "a producer without a name" if producer.producer_name is None else printable(producer.producer_name)
    unseen = producer.batches - producer.batches_inspected
    return Text(
        f"  {name}: {producer.mixed_batches:,} of {count(producer.batches_inspected, 'batch', 'batches')}"
        f"{f'; the keys of {unseen:,} more are not recorded' if unseen else ''} "
        f"({printable(producer.topic)}, {printable(producer.subscription)})"
    )
