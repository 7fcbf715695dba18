"""The page of a comparison: in a sentence which dispatcher keeps order and never stalls, all measures, and charts.

It has the look, the template and the library of the page of a run (`pipeline/report/page`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.report.charts.theme import config
from dispatch_audit.pipeline.report.page.model import Section, Table
from dispatch_audit.pipeline.report.page.render import rendered_as
from dispatch_audit.pipeline.report.wording import duration
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.simulate.comparison.columns import COLUMNS
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison
from dispatch_audit.pipeline.simulate.comparison.conclusion import headline, is_bad, meaning, reproduction
from dispatch_audit.pipeline.simulate.comparison.figures import figures
from dispatch_audit.pipeline.simulate.comparison.markdown import search_result

_TEMPLATE: Final = "comparison.html.j2"


@dataclass(frozen=True)
class MeasureRow:
    """One measure of all dispatchers.

    Attributes:
        cells: of each dispatcher, the value, and whether it says that something is wrong.
    """

    title: str
    meaning: str
    cells: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class ComparisonPage:
    """What the page says; the template only lays it out.

    Attributes:
        verdict: of the dispatcher as given, in the words by which the page of a run chooses its colours.
        headline: what happens as given.
        meaning: which of the others keep order and never stall.
        basis: what was simulated, as names and texts.
        names: of the dispatchers.
        measures: rows of the table.
    """

    title: str
    verdict: str
    headline: str
    meaning: str
    basis: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    measures: tuple[MeasureRow, ...]
    sections: tuple[Section, ...]
    themes: Mapping[str, Any]


def page_of(comparison: VariantComparison) -> str:
    """Returns the page as one HTML document."""
    return rendered_as(_TEMPLATE, built_page(comparison))


def built_page(comparison: VariantComparison) -> ComparisonPage:
    """Returns what the page says."""
    return ComparisonPage(
        title=comparison.traffic,
        verdict="violation" if is_bad(comparison.given) else "clean",
        headline=headline(comparison),
        meaning=meaning(comparison),
        basis=tuple(_basis(comparison)),
        names=tuple(one.name for one in comparison.dispatchers),
        measures=tuple(_measures(comparison)),
        sections=tuple(_sections(comparison)),
        themes={"light": config("light"), "dark": config("dark")},
    )


def _basis(comparison: VariantComparison) -> Iterator[tuple[str, str]]:
    measures = comparison.given.measures
    yield "Traffic", comparison.traffic
    yield "Broker", f"Pulsar {comparison.version}"
    yield "Partitions", f"{comparison.partitions:,}, simulated one by one"
    yield "Entries", f"{measures['entries']:,} published"
    yield "Time", f"{duration(max(one.series.until_us for one in comparison.dispatchers) / 1e6)} simulated"
    if reproduced := reproduction(comparison):
        yield "Model", reproduced
    yield "Seed", f"{comparison.seed}"
    yield "Audited", "what each dispatcher did" if comparison.audited else "no, so order is not judged"
    yield "Simulated", f"by dispatch-audit {code_version()}"


def _measures(comparison: VariantComparison) -> Iterator[MeasureRow]:
    brokers = tuple((f"{one.version}, {one.policy.replace('_', ' ')}", False) for one in comparison.dispatchers)
    yield MeasureRow("broker and policy", "The version that was simulated, and what its dispatcher does.", brokers)
    for column in COLUMNS:
        cells = tuple((column.cell(one.measures), column.is_wrong(one.measures)) for one in comparison.dispatchers)
        yield MeasureRow(column.title, column.meaning, cells)


def _sections(comparison: VariantComparison) -> Iterator[Section]:
    lead = "A lane for each dispatcher. It is a model: a broker needs more time when its cores are busy."
    yield Section("over-time", "Over time", lead, "", (("", figures(comparison)),))
    search = comparison.search
    if search is not None:
        tried = tuple((f"{value:,}", f"{stalled:,.1f}") for value, stalled in sorted(search.tried.items()))
        table = Table(("value", "no progress, s"), tried, frozenset({0, 1}))
        badge = "none" if search.value is None else f"{search.value:,}"
        tables = (("What was tried", table),)
        yield Section("smallest-setting", "Smallest setting", search_result(search), badge, tables=tables)
    if comparison.left_out:
        table = Table(("what is left out",), tuple((reason,) for reason in comparison.left_out))
        lead = "Subscriptions of the trace that cannot be simulated."
        yield Section("left-out", "Left out", lead, f"{len(comparison.left_out):,}", tables=(("Which and why", table),))
