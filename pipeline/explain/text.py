"""A story, or the state of a subscription at a moment, as text for a terminal; plain lines where it is piped.

The first lines answer the question: the finding, part by part, and who owned the hash (Q15).
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.explain.at_moment import Row, StateAtMoment
from dispatch_audit.pipeline.explain.story import Story
from dispatch_audit.pipeline.explain.wording import StoryWords
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.query import finding_in
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.wording import consumer, duration, moment, named, printable

# Rows of each kind that a moment shows.
_SHOWN = 10
# Ranges of a consumer that are named: a consistent hashing ring gives it a hundred.
_RANGES = 3
_MARK = ">>"
# Where the text of a part begins.
_PART = 11
# Characters of a time.
_TIME = 23

_Line = tuple[str, str, str, str]
"""Mark, time, seq and text; the line of a state has only a text."""


def print_story(
    story: Story, finding: Row | None, source: str, console: Console, consumers: Sequence[Row] = ()
) -> None:
    """Writes a story.

    Args:
        story: the story.
        finding: the row of `violations` that it explains; None: it explains none.
        source: the trace and the run, in a few words.
        consumers: the rows of `consumers` that it is about.
        console: where to write; on a terminal events wrap beside their times, in a pipe each is a line. Other texts
            are wrapped to its width.
    """
    for line in _head(story, finding, source, consumers):
        console.print(line, soft_wrap=True)
    console.print()
    lines = list(_lines(story))
    if console.is_terminal:
        console.print(_table(lines))
        return
    width = max((len(seq) for _, _, seq, _ in lines), default=0)
    for mark, time, seq, text in lines:
        console.print(Text(f"{mark:2} {time:{_TIME}}  {seq:>{width}}  {text}"), soft_wrap=True)


def _table(lines: Iterable[_Line]) -> Table:
    """Returns the lines as a table, whose last column wraps."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for mark, time, seq, text in lines:
        style = "bold red" if mark else "" if time else "dim"
        table.add_row(mark, time, Text(seq, justify="right"), Text(text), style=style)
    return table


def _head(story: Story, finding: Row | None, source: str, consumers: Sequence[Row]) -> Iterator[Text | Labelled]:
    words, group, entry = StoryWords(story), story.events.group, story.subject.entry
    if finding is not None:
        reason = finding["known_bug"] or finding["permitted_by"]
        label = finding["severity"].replace("_", " ") + (f" ({printable(reason)})" if reason else "")
        yield Text.assemble((f"{finding['rule']}: {label}", "bold"), f"  {finding['finding_id']}")
        yield from _parts(finding)
    for row in consumers[:_SHOWN]:
        yield _labelled("Who", _life_of(row))
    if len(consumers) > _SHOWN:
        yield _labelled("", f"and {len(consumers) - _SHOWN:,} more of this name")
    if entry is not None:
        yield _labelled("Entry", f"{entry[0]}:{entry[1]}")
    if story.sticky_hash is not None:
        key = f" (key {named(story.key)})" if story.key is not None else ""
        yield _labelled("Hash", f"{story.sticky_hash}{key}")
        state = "is in no row of the trace" if story.at_middle is None else words.state(story.at_middle)
        yield _labelled("Before" if story.before else "At", f"{moment(story.middle_us)}: {state}")
    yield _labelled("Where", f"{printable(group.topic)}, {printable(group.subscription)}")
    about = "the hash" if story.sticky_hash is not None else "the subscription"
    about = "the consumer" if story.subject.consumers else "the entry" if entry is not None else about
    span = "" if story.subject.from_us is None and story.subject.to_us is None else " in this span"
    rows = f"{count(story.total, 'row')} of the trace concern {about}{span}"
    yield _labelled("Events", f"{len(story.steps):,} shown, with joins and leaves; {rows}")
    yield _labelled("Trace", printable(source))
    if finding is not None and finding["finding_id"] not in {row["finding_id"] for row in story.found}:
        text = (
            "the rows that are there now do not give this finding: the trace has changed since the audit, or this "
            "version judges it otherwise"
        )
        yield Labelled(Text("Note", style="yellow"), Text(text, style="yellow"))


def _life_of(row: Row) -> str:
    """A row of `consumers` in a few words."""
    joined = "connected before the trace" if row["joined_at_us"] is None else f"joined {moment(row['joined_at_us'])}"
    reason = f" ({printable(row['leave_reason'])})" if row["leave_reason"] else ""
    left = "connected to the end" if row["left_at_us"] is None else f"left {moment(row['left_at_us'])}{reason}"
    sent = f"sent {count(row['dispatched'], 'entry', 'entries')}, acknowledged {row['acked']:,}"
    return f"{consumer(row['consumer'], row['consumer_name'])}: {joined}, {left}; {sent}"


def _labelled(label: str, text: str) -> Labelled:
    return Labelled(Text(label, style="bold"), text)


def _parts(finding: Row) -> Iterator[Labelled]:
    """Yields what a finding says, part by part, and the rows that prove it."""
    parts = {**finding_in(finding).parts, "rows": finding["evidence"]}
    for label, texts in parts.items():
        for at, text in enumerate(texts):
            yield Labelled(Text("" if at else label, style="dim"), printable(text), _PART, indent=2)


def _lines(story: Story) -> Iterator[_Line]:
    """Yields a line for each event, and one for the state after it where it differs from the last."""
    words, before = StoryWords(story), ""
    several = bool(story.events.recorders.terms)
    for step in story.steps:
        row = step.row
        seq = f"seq {row['seq']}" + (
            f" of {printable(row['broker'] or 'a recorder without a name')}" if several else ""
        )
        mark = _MARK if step.offending else ""
        text = words.event(step) + ("  <- completes the finding" if step.offending else "")
        yield mark, moment(row["ts_us"]), seq, text
        state = "" if step.state is None else words.state(step.state)
        if state not in ("", before):
            yield "", "", "", f"  {state}"
            before = state


def print_moment(found: StateAtMoment, source: str, console: Console) -> None:
    """Writes the state of a subscription at a moment."""
    for line in _moment_lines(found, source):
        console.print(line, soft_wrap=True)


def _moment_lines(found: StateAtMoment, source: str) -> Iterator[Text | Labelled]:
    group = f"{printable(found.group.topic)}, {printable(found.group.subscription)}"
    yield _labelled("At", moment(found.ts_us))
    yield _labelled("Where", group)
    yield _labelled("Trace", printable(source))
    undecided = [row for row in found.ranges if row["undecided"] is not None]
    yield from _section("Consumers", [_consumer(row, found) for row in found.consumers])
    if undecided:
        yield Text(
            f"  of {count(len(undecided), 'range')} the owner is undecided: {printable(undecided[0]['undecided'])}"
        )
    yield from _section("Draining", list(map(_draining, found.draining)))
    yield from _section("Waiting", [_block(row, found.ts_us) for row in found.blocks])


def _section(title: str, lines: list[str]) -> Iterator[Text]:
    yield Text()
    yield Text(f"{title}: {len(lines):,}" if lines else f"{title}: none", style="bold")
    yield from (Text(f"  {line}") for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield Text(f"  and {len(lines) - _SHOWN:,} more in the tables")


def _consumer(row: Row, found: StateAtMoment) -> str:
    ranges = found.ranges_of(row)
    named = ", ".join(f"{each['range_start']}-{each['range_end']}" for each in ranges[:_RANGES])
    more = f" and {len(ranges) - _RANGES} more" if len(ranges) > _RANGES else ""
    owned = sum(each["range_end"] - each["range_start"] + 1 for each in ranges)
    text = f"owns {count(owned, 'hash', 'hashes')}: {named}{more}" if ranges else "owns no hash"
    return f"{consumer(row['consumer'], row['consumer_name'])} {text}"


def _draining(row: Row) -> str:
    new_owner = consumer(row["new_owner"], row["new_owner_name"])
    return (
        f"hash {row['sticky_hash']} from {consumer(row['holder'], row['holder_name'])} to {new_owner}, since "
        f"{moment(row['from_ts_us'])} (seq {row['from_seq']})"
    )


def _block(row: Row, ts_us: int) -> str:
    so_far = duration((ts_us - row["from_ts_us"]) / 1e6)
    return f"for {so_far} so far, {row['cause']} ({row['scope']}): {printable(row['explanation'] or '')}"
