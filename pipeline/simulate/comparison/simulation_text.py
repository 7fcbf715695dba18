"""The result of a simulation for a terminal: a row for each partition in 80 columns, and a sentence at the end."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.wording import duration, printable
from dispatch_audit.pipeline.simulate.measures import MeasuresRow
from dispatch_audit.pipeline.simulate.setup import Setup

# The headings have two lines, so that the table fits 80 columns.
_COUNTS: Final = {
    "entries": "entries",
    "sent": "sent",
    "never_sent": "never\nsent",
    "duplicates": "sent\nagain",
    "replay_peak": "largest\nreplay",
    "ack_holes_peak": "most ack\nholes",
}
# Partitions with a row each: those that made no progress for longest.
_ROWS: Final = 12


def print_simulation(measured: Sequence[MeasuresRow], setup: Setup, folder: Path, console: Console) -> None:
    """Writes the partitions, where the trace is, and the result in a sentence.

    Args:
        measured: of each partition, in their order.
        setup: the dispatcher.
        folder: of the simulated trace.
        console: where to write; its width is that of the lines.
    """
    console.print(_table(measured), markup=False, highlight=False)
    if len(measured) > _ROWS:
        console.print(Labelled("", f"and {len(measured) - _ROWS:,} more partitions, none of them held up for longer"))
    console.print()
    trace = printable(str(folder))
    console.print(Labelled(Text("Trace", style="bold"), trace, whole=True), soft_wrap=True)
    command = f"dispatch-audit audit {printable(quote(str(folder)))}"
    console.print(Labelled(Text("Next", style="bold"), command, whole=True), soft_wrap=True)
    console.print(Labelled(Text("Result", style="bold"), conclusion(measured, setup)), soft_wrap=True)


def conclusion(measured: Sequence[MeasuresRow], setup: Setup) -> str:
    """Returns whether everything was sent and something stalled, in a sentence."""
    stalled = [row for row in measured if row["stalled_at_s"] is not None]
    never = sum(row["never_sent"] for row in measured)
    what = f"{count(len(measured), 'partition')} of Pulsar {setup.version} ({setup.policy.replace('_', ' ')})"
    sent = f"{entries(never)} of {sum(row['entries'] for row in measured):,} never sent" if never else "all is sent"
    if not stalled:
        return f"{what}: nothing stalls, and {sent}."
    longest = max(row["no_progress_s"] for row in stalled)
    where = f"{len(stalled):,} stall" if len(stalled) > 1 else "1 stalls" if len(measured) > 1 else "it stalls"
    return (
        f"{what}: {where}, the first after {min(row['stalled_at_s'] for row in stalled):,.1f} s, with no progress for "
        f"up to {duration(longest)} in all; {sent}."
    )


def _table(measured: Sequence[MeasuresRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("partition", *_COUNTS.values(), "no\nprogress", "stalled\nat"):
        table.add_column(column, justify="right", vertical="bottom", no_wrap=True)
    longest_first = sorted(range(len(measured)), key=lambda number: -measured[number]["no_progress_s"])
    for number in sorted(longest_first[:_ROWS]):
        row = measured[number]
        counts = (f"{row[name]:,}" for name in _COUNTS)
        stalled = "-" if row["stalled_at_s"] is None else f"{row['stalled_at_s']:.1f} s"
        table.add_row(str(number), *counts, f"{row['no_progress_s']:.1f} s", stalled)
    return table
