"""The report as text: what it rests on, what waited, the worst incidents, the next step, and the answers at the end.

A terminal shows the end of what is printed, so what says more about what to do stands further down. Answers Q1 to Q5
and Q7 (what broke, where, with what evidence), Q8 to Q11 (who blocked whom), Q18 (hot keys), Q26 and Q27 (what the
answers rest on), Q29 (batches of several keys, messages without a key). Every list is short; the tables hold the rest.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.contract.recorded_by import BROKER, OUTSIDE
from dispatch_audit.pipeline.contract.severity import VERDICTS
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.answers import (
    Answer,
    Tone,
    answers_on,
    answers_on_all,
    facts_about_clients,
    worse,
)
from dispatch_audit.pipeline.report.incidents import assumed_by, incidents
from dispatch_audit.pipeline.report.keys import keyless_line, keyless_routing, spread_line
from dispatch_audit.pipeline.report.summary import HotKey, MixedProducer, Partition, RunSummary, Summary
from dispatch_audit.pipeline.report.text.blocking import blocking
from dispatch_audit.pipeline.report.text.facts import facts
from dispatch_audit.pipeline.report.text.findings import findings, rules, worst_of_each
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.text.next_step import next_step
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import (
    DIGESTS,
    duration,
    moment,
    named,
    of_sample,
    printable,
    share,
    together,
)

_STYLE: dict[Tone, str] = {"bad": "bold red", "careful": "bold yellow", "plain": "bold", "good": "bold green"}
# A window that starts with the log needs no words.
_STARTS_FROM: dict[str | None, str] = {
    "state": ", from where the window before ended",
    "censored": "; what was open when it began is not known",
}
# Of the subscriptions that could not be judged in full, and of the producers of mixed batches.
_LISTED = 3
# Traces with a line each above the answers on all of them, so that both are in sight on 24 lines.
_TRACES = 12
_HOW_TO_BE_CERTAIN = (
    "record with the recorder or with record-stats, which write the settings in force, or name them in trace.json"
)
_MIXED = "Batches; the broker routes a batch by the key of its first message, so it may keep no order of the others"


@dataclass(frozen=True)
class ReportOptions:
    """What a report in text shows.

    Attributes:
        incidents_max: of each run, the incidents to show with their evidence, whatever their severity; None: a few of
            those that need a look.
        verbose: whether to name the rules that found nothing, and the tables.
        took: how long the audit took, in a sentence; empty: it was not measured.
        wrote: the files that have the same in other formats.
    """

    incidents_max: int | None = None
    verbose: bool = False
    took: str = ""
    wrote: tuple[str, ...] = ()


def print_report(summary: Summary, console: Console, shown: ReportOptions = ReportOptions()) -> None:
    """Writes the report; the answers come last, because there they are in sight.

    Args:
        summary: at least one run.
        console: where to write; it decides on colours, and its width is that of the lines (`layout.WHOLE_LINES`: no
            sentence is broken).
        shown: how much of it.
    """

    def write(parts: Iterable[Text | Table | Labelled]) -> None:
        for part in parts:
            console.print(part, soft_wrap=not isinstance(part, Table), markup=False, highlight=False)

    several = len(summary.runs) > 1
    write(_tables(summary, shown))
    for run in summary.runs:
        write([Text()] if several else [])
        write(_run(run, summary.target, shown))
        write(_answers(answers_on(run), together(run.inputs)))
    if several:
        write([Text()])
        write(_each(summary.runs))
        write(_answers(answers_on_all(summary), f"all {len(summary.runs)} {summary.run_is}s"))
    write(_unusable(summary))


def _unusable(summary: Summary) -> Iterator[Text | Labelled]:
    """The traces that the answers are not about."""
    if summary.unusable:
        yield Text()
    for number, (path, error) in enumerate(summary.unusable):
        label = "" if number else Text("Unusable", style="bold red")
        yield Labelled(label, printable(f"{path}: {error}"), column=10)


def _run(run: RunSummary, target: str, shown: ReportOptions) -> Iterator[Text | Table | Labelled]:
    """What stands above the answers on a run; lines that say more about what to do are closer to them."""
    worst = worst_of_each(incidents(run.without_accepted.findings), shown.incidents_max)
    incomplete, mixed = run.incomplete[:_LISTED], run.mixed_producers[:_LISTED]
    keyless = run.keyless_producers[:_LISTED]
    about_clients = facts_about_clients(run)
    topics = TopicNames(run.groups, [*incomplete, *worst, *run.blocks, *run.hot_keys, *mixed, *keyless, *about_clients])
    yield from _basis(run)
    yield from topics.legend()
    yield from _subscriptions(run)
    yield from (_incomplete(partition, topics, run) for partition in incomplete)
    if keyless:
        yield Text()
        yield Labelled("", Text(f"Messages without a key; {keyless_routing(run.profile)}", style="bold"), column=0)
        lines = (f"{keyless_line(producer)}{topics.suffix(producer)}" for producer in keyless)
        yield from (Labelled("", line, column=2) for line in lines)
    if mixed:
        yield Text()
        yield Labelled("", Text(_MIXED, style="bold"), column=0)
        yield from (_mixed_producer(producer, topics) for producer in mixed)
    if run.hot_keys:
        yield Text()
        yield Text("Hot keys", style="bold")
        yield from (_hot_key(key, topics) for key in run.hot_keys)
    if run.blocks:
        yield Text()
        yield from blocking(run, topics)
    if worst:
        yield Text()
        yield from findings(worst, run, target, topics)
    yield from facts(about_clients, run, topics)
    yield Text()
    yield from rules(run.rules, shown.verbose)
    yield from _assumed(run)
    yield Labelled(Text("Next", style="bold"), next_step(run.without_accepted, target, topics))


def _assumed(run: RunSummary) -> Iterator[Labelled]:
    """What findings assume of settings, each once, and how to make it certain."""
    assumed = assumed_by(run.without_accepted.findings)
    for number, one in enumerate(assumed):
        yield Labelled("" if number else "Assumes", printable(one.text))
    if assumed:
        yield Labelled("", f"to be certain, {_HOW_TO_BE_CERTAIN}")


def _each(runs: Sequence[RunSummary]) -> Iterator[Labelled]:
    """A line for each trace, those that need a look first, and the number of the others."""
    shown = sorted(runs, key=_badness, reverse=True)[:_TRACES]
    width = max(len(answer.word) for run in shown for answer in answers_on(run)) + 2
    for number, run in enumerate(shown):
        line = Text()
        for answer in answers_on(run):
            line.append(f"{answer.word.upper():{width}}", style=_STYLE[answer.tone])
        line.append(printable(together(run.inputs)), style="not bold default")
        yield Labelled("" if number else Text("Traces", style="bold"), line)
    if len(runs) > _TRACES:
        yield Labelled("", f"and {len(runs) - _TRACES:,} more traces, none of them worse")


def _badness(run: RunSummary) -> tuple[int, int]:
    """A sort key: how bad the worse of the answers is, and then the verdict."""
    tone = worse(answer.tone for answer in answers_on(run))
    return get_args(Tone).index(tone), VERDICTS.index(run.verdict)


def _tables(summary: Summary, shown: ReportOptions) -> Iterator[Labelled]:
    names = ", ".join(summary.tables) if shown.verbose else f"{count(len(summary.tables), 'table')} (-v names them)"
    yield Labelled("Tables", f"{printable(summary.target)}: {names}")
    if shown.wrote:
        yield Labelled("Wrote", printable(", ".join(shown.wrote)))
    if shown.took:
        yield Labelled("Took", shown.took)
    for number, stale in enumerate(summary.stale):
        yield Labelled(
            "" if number else "Stale", printable(f"the baseline accepts {stale}, which is not found any more")
        )


def _answers(answers: Sequence[Answer], of: str) -> Iterator[Labelled]:
    """The answers; the first one names what they are about."""
    width = max(len(answer.question) for answer in answers) + 2
    for answer in answers:
        about = f"  {printable(of)}" if answer is answers[0] else ""
        colon = "" if not about and answer.text.startswith("for ") else ":"
        line = Text(answer.word.upper(), _STYLE[answer.tone])
        line.append(f"{about}{colon} {answer.text}", style="not bold default")
        yield Labelled(Text(answer.question.upper(), style="bold"), line, column=width)


def _basis(run: RunSummary) -> Iterator[Labelled]:
    """The lines on what the verdict rests on: rows, time, window and broker."""
    yield Labelled("Trace", printable(together(run.inputs)))
    refused = ", ".join(f"{reason} {number:,}" for reason, number in run.refused.items())
    yield Labelled(
        "Read",
        f"{count(run.events_in, 'event')}, {run.events_quarantined:,} quarantined"
        f"{f' ({refused})' if refused else ''}; completeness {share(run.completeness)}",
    )
    if run.from_ts_us is not None and run.to_ts_us is not None:
        length = duration((run.to_ts_us - run.from_ts_us) / 1e6)
        yield Labelled("Time", f"{moment(run.from_ts_us)} to {moment(run.to_ts_us)} UTC ({length})")
    if run.window is not None:
        yield Labelled("Window", f"{run.window.text}{_STARTS_FROM.get(run.starts_from, '')}")
    broker = f"Pulsar {printable(run.pulsar_version)}, " if run.pulsar_version else ""
    yield Labelled("Broker", f"{broker}by the rules of profile {run.profile}")
    if run.judged_as:
        yield Labelled("", printable(run.judged_as))
    if outside := OUTSIDE.get(run.recorded_by or BROKER):
        yield Labelled("Source", f"{outside.described}: {outside.not_judged}")
    if run.keys_digested:
        yield Labelled("Keys", DIGESTS)
    if run.sample is not None:
        yield Labelled("Hashes", printable(of_sample(*run.sample)))
    if run.chosen:
        yield Labelled("Only", printable(f"topics and subscriptions {' '.join(run.chosen)}"))
    yield Labelled("Run", f"{run.run_key}{f', on {run.engine}' if run.engine else ''}")


def _subscriptions(run: RunSummary) -> Iterator[Labelled]:
    """The lines on what people take for one: subscriptions of a topic for consumers, partitions for one order."""
    by_topic: defaultdict[str, list[str]] = defaultdict(list)
    for of in run.subscriptions:
        by_topic[of.topic].append(of.subscription)
    several = [names for names in by_topic.values() if len(names) > 1]
    if several:
        names = ", ".join(map(printable, several[0][:_LISTED]))
        yield Labelled(
            "Sent", f"each subscription gets every message of its topic ({names}); consumers share within one only"
        )
    if run.spread_keys:
        yield Labelled("Keys", spread_line(run.spread_keys))


def _incomplete(partition: Partition, topics: TopicNames, run: RunSummary) -> Labelled:
    """The line on why a subscription could not be judged in full."""
    censored = "that show no receive" if run.recorded_by in OUTSIDE else "from before its state was known"
    lost, by_gaps = partition.rows_dropped or 0, partition.rows_censored_by_gaps or 0
    numbers = {
        f"dropped by the recorder in {count(partition.gaps or 0, 'gap')}": lost,
        "in or after a gap": by_gaps,
        censored: partition.rows_censored - by_gaps,
        "refused": partition.rows_refused,
        "dispatched while the owner of their hash was undecided": partition.dispatches_undecided,
        "dispatched without a known key": partition.dispatches_without_key,
    }
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in numbers.items() if number)
    line = f"{share(partition.completeness)} of {count(partition.rows + lost, 'row')} judged ({reasons})"
    return Labelled("", f"{line}{topics.suffix(partition, ': {}')}")


def _hot_key(key: HotKey, topics: TopicNames) -> Labelled:
    """The line on one hot key, with the number of keys that share its hash."""
    name = "a key that is not recorded" if key.key is None else f"key {named(key.key)}"
    with_it = f" with {count(key.keys_on_hash - 1, 'other key')}" if key.keys_on_hash > 1 else ""
    least = "at least " if key.dispatched_error_max else ""
    part = "" if key.dispatched_share is None else f" ({share(key.dispatched_share)})"
    pending = "" if key.unacked_max is None else f"; up to {count(key.unacked_max, 'entry', 'entries')} pending at once"
    return Labelled(
        "",
        f"{name} on hash {key.sticky_hash}{with_it}: {least}{count(key.dispatched, 'dispatch', 'dispatches')}{part}"
        f"{pending}; its hash waited {duration(key.blocked_seconds)}{topics.suffix(key)}",
        column=2,
    )


def _mixed_producer(producer: MixedProducer, topics: TopicNames) -> Labelled:
    name = "a producer without a name" if producer.producer_name is None else printable(producer.producer_name)
    unseen = producer.batches - producer.batches_inspected
    inspected = count(producer.batches_inspected, "batch", "batches")
    known = f"{producer.mixed_batches:,} of {inspected} mix keys" if producer.batches_inspected else ""
    unknown = f"the keys in {count(unseen, 'batch', 'batches')} are not recorded" if unseen else ""
    return Labelled(
        "",
        f"{name}: {'; '.join(filter(None, (known, unknown)))}; batch by key, or not at all{topics.suffix(producer)}",
        column=2,
    )
