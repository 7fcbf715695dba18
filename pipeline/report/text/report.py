"""The report as text: order and progress, what that rests on, rules with findings, the costliest blocks, the next step.

Answers Q1 to Q5 and Q7 (what broke, where, with what evidence), Q8 to Q11 (who blocked whom), Q18 (hot keys), Q26 and
Q27 (what the answers rest on), Q29 (batches of several keys, messages without a key). Every list is short; the tables
named at the end hold the rest.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.contract.recorded_by import BROKER, OUTSIDE
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import Answer, Tone, answers_on, answers_on_all
from dispatch_audit.pipeline.report.keyless import keyless_line, keyless_routing
from dispatch_audit.pipeline.report.summary import HotKey, MixedProducer, Partition, RunSummary, Summary
from dispatch_audit.pipeline.report.text.blocking import blocking
from dispatch_audit.pipeline.report.text.findings import findings, rules, worst_of_each
from dispatch_audit.pipeline.report.text.next_step import next_step
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import DIGESTS, duration, moment, printable, share, together

_STYLE: dict[Tone, str] = {"bad": "bold red", "careful": "bold yellow", "plain": "bold", "good": "bold green"}
# A window that starts with the log needs no words.
_STARTS_FROM: dict[str | None, str] = {
    "state": ", from where the window before ended",
    "censored": "; what was open when it began is not known",
}
# Of the subscriptions that could not be judged in full, and of the producers of mixed batches.
_LISTED = 3


def print_report(summary: Summary, console: Console, findings_max: int | None = None) -> None:
    """Writes the report.

    Args:
        summary: at least one run.
        console: where to write; it decides on colours. Sentences are not wrapped, whatever its width: grep needs them
            whole, and a terminal wraps them.
        findings_max: of each run, the findings to show with their evidence, whatever their severity; None: a few of
            those that need a look.
    """
    for run in summary.runs:
        for part in _run(run, summary.target, findings_max):
            console.print(part, soft_wrap=isinstance(part, Text), markup=False, highlight=False)
        console.print()
    if len(summary.runs) > 1:
        for line in _answers(answers_on_all(summary), f"all {len(summary.runs)} {summary.run_is}s"):
            console.print(line, soft_wrap=True)
    console.print(Text(f"Tables  {printable(summary.target)}: {', '.join(summary.tables)}"), soft_wrap=True)


def _run(run: RunSummary, target: str, findings_max: int | None) -> Iterator[Text | Table]:
    shown = worst_of_each(run.findings, findings_max)
    incomplete, mixed = run.incomplete[:_LISTED], run.mixed_producers[:_LISTED]
    keyless = run.keyless_producers[:_LISTED]
    topics = TopicNames(run.groups, [*incomplete, *shown, *run.blocks, *run.hot_keys, *mixed, *keyless])
    yield from _answers(answers_on(run), together(run.inputs))
    yield Text("\n".join([*_basis(run), *topics.legend()]))
    yield from (_incomplete(partition, topics, run) for partition in incomplete)
    yield Text()
    yield from rules(run.rules)
    if shown:
        yield Text()
        yield from findings(shown, run, target, topics)
    if run.blocks:
        yield Text()
        yield from blocking(run, topics)
    if run.hot_keys:
        yield Text()
        yield Text("Hot keys", style="bold")
        yield from (_hot_key(key, topics) for key in run.hot_keys)
    if mixed:
        yield Text()
        yield Text("Batches of several keys; the broker routes a batch by the key of its first message", style="bold")
        yield from (_mixed_producer(producer, topics) for producer in mixed)
    if keyless:
        yield Text()
        yield Text(f"Messages without a key; {keyless_routing(run.profile)}", style="bold")
        yield from (Text(f"  {keyless_line(producer)}{topics.behind(producer)}") for producer in keyless)
    yield Text()
    yield Text("Next    ", style="bold").append(next_step(run, target, topics), style="not bold")


def _answers(answers: Sequence[Answer], of: str) -> Iterator[Text]:
    """The lines with the answers; the first one names what they are about."""
    width = max(len(answer.question) for answer in answers)
    for answer in answers:
        line = Text(f"{answer.question.upper():{width}}  ", style="bold").append(
            answer.word.upper(), _STYLE[answer.tone]
        )
        about = f"  {printable(of)}" if answer is answers[0] else ""
        colon = "" if not about and answer.text.startswith("for ") else ":"
        yield line.append(f"{about}{colon} {answer.text}", style="not bold default")


def _basis(run: RunSummary) -> Iterator[str]:
    """The lines on what the verdict rests on: rows, time, window and broker."""
    refused = ", ".join(f"{reason} {number:,}" for reason, number in run.refused.items())
    yield (
        f"Read    {count(run.events_in, 'event')}, {run.events_quarantined:,} quarantined"
        f"{f' ({refused})' if refused else ''}; completeness {share(run.completeness)}"
    )
    if run.from_ts_us is not None and run.to_ts_us is not None:
        length = duration((run.to_ts_us - run.from_ts_us) / 1e6)
        yield f"Time    {moment(run.from_ts_us)} to {moment(run.to_ts_us)} UTC ({length})"
    if run.window is not None:
        yield f"Window  {run.window.text}{_STARTS_FROM.get(run.starts_from, '')}"
    broker = f"Pulsar {printable(run.pulsar_version)}, " if run.pulsar_version else ""
    yield f"Broker  {broker}by the rules of profile {run.profile}"
    if run.judged_as:
        yield f"        {printable(run.judged_as)}"
    if outside := OUTSIDE.get(run.recorded_by or BROKER):
        yield f"Source  {outside.described}: {outside.not_judged}"
    if run.keys_digested:
        yield f"Keys    {DIGESTS}"
    yield f"Run     {run.run_key}{f', on {run.engine}' if run.engine else ''}"


def _incomplete(partition: Partition, topics: TopicNames, run: RunSummary) -> Text:
    """The line on why a subscription could not be judged in full."""
    censored = "that show no receive" if run.recorded_by in OUTSIDE else "from before its state was known"
    lost, by_gaps = partition.rows_dropped or 0, partition.rows_censored_by_gaps or 0
    numbers = {
        f"dropped by the recorder in {count(partition.gaps or 0, 'gap')}": lost,
        "in or behind a gap": by_gaps,
        censored: partition.rows_censored - by_gaps,
        "refused": partition.rows_refused,
        "dispatched while the owner of their hash was undecided": partition.dispatches_undecided,
        "dispatched without a known key": partition.dispatches_without_key,
    }
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in numbers.items() if number)
    line = f"        {share(partition.completeness)} of {count(partition.rows + lost, 'row')} judged ({reasons})"
    return Text(f"{line}{topics.behind(partition, ': {}')}")


def _hot_key(key: HotKey, topics: TopicNames) -> Text:
    """The line on one hot key, with the number of keys that share its hash."""
    name = "a key that is not recorded" if key.key is None else f"key {printable(key.key)}"
    with_it = f" with {count(key.keys_on_hash - 1, 'other key')}" if key.keys_on_hash > 1 else ""
    least = "at least " if key.dispatched_error_max else ""
    part = "" if key.dispatched_share is None else f" ({share(key.dispatched_share)})"
    pending = "" if key.unacked_max is None else f"; up to {count(key.unacked_max, 'entry', 'entries')} pending at once"
    return Text(
        f"  {name} on hash {key.sticky_hash}{with_it}: {least}{count(key.dispatched, 'dispatch', 'dispatches')}{part}"
        f"{pending}; its hash waited {duration(key.blocked_seconds)}{topics.behind(key)}"
    )


def _mixed_producer(producer: MixedProducer, topics: TopicNames) -> Text:
    name = "a producer without a name" if producer.producer_name is None else printable(producer.producer_name)
    unseen = producer.batches - producer.batches_inspected
    return Text(
        f"  {name}: {producer.mixed_batches:,} of {count(producer.batches_inspected, 'batch', 'batches')}"
        f"{f'; the keys of {unseen:,} more are not recorded' if unseen else ''}{topics.behind(producer)}"
    )
