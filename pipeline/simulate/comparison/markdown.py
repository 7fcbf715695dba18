"""A comparison of dispatchers as a table in Markdown, and what pages say with the same words."""

from typing import TYPE_CHECKING

from dispatch_audit.pipeline.simulate.comparison.columns import COLUMNS
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison
from dispatch_audit.pipeline.simulate.comparison.conclusion import reproduction

if TYPE_CHECKING:
    from dispatch_audit.pipeline.simulate.what_if import Searched


def markdown(comparison: VariantComparison) -> str:
    """A table with a row for each dispatcher; below it how far that reproduces a recording, and what a search found."""
    head = ["dispatcher", "release", *(column.title for column in COLUMNS)]
    rows = (
        [one.name, one.version, *(column.cell(one.measures) for column in COLUMNS)] for one in comparison.dispatchers
    )
    lines = [head, ["---"] * 2 + ["--:"] * len(COLUMNS), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    searched = "" if comparison.search is None else search_result(comparison.search)
    return "\n\n".join(filter(None, (table, reproduction(comparison), searched)))


def search_result(search: "Searched") -> str:
    """The result of a search for the smallest setting without a stall, in a sentence."""
    what = " and ".join(search.names)
    if search.value is None:
        return f"No value of {what} up to {max(search.tried):,} removes the stall."
    tried = ", ".join(f"{value:,}" for value in sorted(search.tried))
    return f"The smallest {what} without a stall: {search.value:,} (tried: {tried})."
