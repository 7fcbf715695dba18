"""The costliest blocks: how long entries waited, by cause and by the consumer that held them up."""

from collections.abc import Iterator

from rich.text import Text

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import Block, RunSummary, Wait
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.text.topics import TopicNames
from dispatch_audit.pipeline.report.wording import consumer, duration, moment, printable
from dispatch_audit.pipeline.report.words import MESSAGE_SECOND

# Entries shown for an interval.
_ROOTS = 3
_HEADINGS = ("message-seconds", "intervals", "longest", "cause", "held up by")


def blocking(run: RunSummary, topics: TopicNames) -> Iterator[Text | Labelled]:
    """The table of the costliest blocks, the worst interval of the first, and the causes that the table lacks."""
    heading = Text("Blocking: what cost most", style="bold")
    heading.append(f"; a message-second is {MESSAGE_SECOND.partition(';')[0]}", style="not bold")
    yield Labelled("", heading, column=0)
    yield from map(Text, _table(run, topics))
    yield Labelled(Text("worst", style="dim"), _worst(run.blocks[0].worst), column=11, indent=2)
    shown = {block.cause for block in run.blocks}
    others = ((cause.cause, f"{cause.message_seconds:,.1f}") for cause in run.causes if cause.cause not in shown)
    rest = [f"{cause} {cost} message-seconds" for cause, cost in others if cost != "0.0"]
    if rest:
        yield Labelled(Text("also", style="dim"), ", ".join(rest), column=11, indent=2)
    if run.intervals_left_out:
        left_out = count(run.intervals_left_out, "interval")
        yield Labelled("", f"{left_out} of lower cost left out (raise blocking.intervals_max to keep more)", column=11)


def _table(run: RunSummary, topics: TopicNames) -> Iterator[str]:
    """The lines of a table; what clients name stands last, because it may be of any length."""
    rows = [
        (f"{b.message_seconds:,.1f}", f"{b.intervals:,}", duration(b.longest_s), b.cause, _blamed(b, topics))
        for b in run.blocks
    ]
    lines = [_HEADINGS, *rows]
    cost, intervals, longest, cause = (max(len(line[at]) for line in lines) for at in range(4))
    for line in lines:
        yield (
            f"  {line[0]:>{cost}}  {line[1]:>{intervals}}  {line[2]:>{longest}}  {line[3]:{cause}}  {line[4]}"
        ).rstrip()


def _blamed(block: Block, topics: TopicNames) -> str:
    name = "-" if block.consumer is None else consumer(block.consumer, block.consumer_name)
    return f"{name}{topics.suffix(block, ', {}')}"


def _worst(wait: Wait) -> str:
    """An interval in words: who waited for whom, how long, and after which entries."""
    end = f"ended by {wait.ended_by}" if wait.ended_by else "still open at the end"
    named = wait.root_positions[:_ROOTS]
    more = len(wait.root_positions) - len(named)
    oldest = "oldest unacknowledged" if wait.held else "oldest of them"
    root = f", {oldest} {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""
    return f"{printable(wait.explanation)}; from {moment(wait.from_ts_us)} for {duration(wait.seconds)}, {end}{root}"
