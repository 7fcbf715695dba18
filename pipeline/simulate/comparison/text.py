"""A comparison of dispatchers for a terminal: the measures that decide in 80 columns, and a conclusion at the end."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, findings_in
from dispatch_audit.pipeline.simulate.comparison.conclusion import headline, is_bad, meaning, reproduction
from dispatch_audit.pipeline.simulate.comparison.markdown import search_result
from dispatch_audit.pipeline.simulate.measures import MeasuresRow


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} s"


_MORE: Final = "--format markdown and --report html=FILE have all measures."
# The headings have two lines, so that the names of dispatchers have room.
_COLUMNS: Final[Sequence[tuple[str, Callable[[MeasuresRow], str]]]] = (
    ("\nfindings", lambda row: f"{findings_in(row):,}" if "violations" in row else "-"),
    ("first\nstall", lambda row: _seconds(row["stalled_at_s"])),
    ("no\nprogress", lambda row: _seconds(row["no_progress_s"])),
    ("largest\nreplay", lambda row: f"{row['replay_peak']:,}"),
    ("never\nsent", lambda row: f"{row['never_sent']:,}"),
)


def print_comparison(comparison: VariantComparison, console: Console) -> None:
    """Writes the comparison: a row for each dispatcher, the result of a search if there was one, and the conclusion.

    Args:
        comparison: what is compared.
        console: where to write; its width is that of the lines.
    """
    console.print(_table(comparison), markup=False, highlight=False)
    console.print(Labelled("", _MORE, column=0), soft_wrap=True)
    console.print()
    if comparison.search is not None:
        console.print(Labelled(Text("Search", style="bold"), search_result(comparison.search)), soft_wrap=True)
    style = "bold red" if is_bad(comparison.given) else "bold green"
    if reproduced := reproduction(comparison):
        console.print(Labelled(Text("Model", style="bold"), reproduced), soft_wrap=True)
    conclusion = Text(headline(comparison), style=style).append(f". {meaning(comparison)}", style="not bold default")
    console.print(Labelled(Text("Result", style="bold"), conclusion), soft_wrap=True)


def _table(comparison: VariantComparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("dispatcher", vertical="bottom", overflow="fold")
    table.add_column("release", vertical="bottom", no_wrap=True)
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    if (recorded := comparison.recorded) is not None:
        findings, held_up = findings_in(recorded), _seconds(recorded["held_up_s"])
        # The other measures are of the model only.
        cells = (f"{findings:,}", "-", held_up, "-", "-")
        table.add_row(Text("recorded", style="red" if findings else ""), comparison.version, *cells)
    for one in comparison.dispatchers:
        measured = (cell(one.measures) for _, cell in _COLUMNS)
        table.add_row(Text(printable(one.name), style="red" if is_bad(one) else ""), one.version, *measured)
    return table
