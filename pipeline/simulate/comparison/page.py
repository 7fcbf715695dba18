"""The page of a comparison: in a sentence which dispatcher keeps order and never stalls, all measures, and charts.

It has the look, the template and the library of the page of a run (`pipeline/report/page`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.charts.theme import config
from dispatch_audit.pipeline.report.page.model import Section, Table
from dispatch_audit.pipeline.report.page.render import rendered_as
from dispatch_audit.pipeline.report.wording import duration, listed
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.simulate.comparison.columns import COLUMNS
from dispatch_audit.pipeline.simulate.comparison.comparison import Comparison, Dispatcher
from dispatch_audit.pipeline.simulate.comparison.figures import figures
from dispatch_audit.pipeline.simulate.comparison.text import search_result

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
        verdict: how bad it is as given, as the page of a run has it for its colours.
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


def page_of(comparison: Comparison) -> str:
    """Returns the page as one HTML document."""
    return rendered_as(_TEMPLATE, built_page(comparison))


def built_page(comparison: Comparison) -> ComparisonPage:
    """Returns what the page says."""
    return ComparisonPage(
        title=comparison.traffic,
        verdict="violation" if _is_bad(comparison.given) else "clean",
        headline=_headline(comparison),
        meaning=_meaning(comparison),
        basis=tuple(_basis(comparison)),
        names=tuple(one.name for one in comparison.dispatchers),
        measures=tuple(_measures(comparison)),
        sections=tuple(_sections(comparison)),
        themes={"light": config("light"), "dark": config("dark")},
    )


def _is_bad(one: Dispatcher) -> bool:
    return one.stalls or one.violations > 0


def _headline(comparison: Comparison) -> str:
    given = comparison.given
    if given.violations:
        return f"{count(given.violations, 'violation')} as given"
    if given.stalls:
        return f"No progress for {duration(given.measures['no_progress_s'])} as given"
    return "Order is kept and nothing stalls as given" if comparison.audited else "Nothing stalls as given"


def _meaning(comparison: Comparison) -> str:
    """Returns which dispatcher of those that keep order and never stall needs the smallest replay queue."""
    stalled = ""
    if comparison.given.stalls:
        stalled = f"As given, the first stall begins after {comparison.given.measures['stalled_at_s']:,.1f} s. "
    kept, keeps = ("keep the order and ", "keeps the order and ") if comparison.audited else ("", "")
    good = [one for one in comparison.dispatchers if not _is_bad(one)]
    if not good:
        best = min(comparison.dispatchers, key=lambda one: (one.violations, one.measures["no_progress_s"]))
        violations = f"{count(best.violations, 'violation')} and " if comparison.audited else ""
        without = f"{best.measures['no_progress_s']:,.1f} s without progress"
        return f"{stalled}None of the dispatchers {keeps}never stalls. The best is {best.name}: {violations}{without}."
    fewest = min(one.measures["replay_peak"] for one in good)
    names = listed([one.name for one in good if one.measures["replay_peak"] == fewest])
    what = f"{keeps}never stalls" if len(good) == 1 else f"{kept}never stall"
    number = f"{len(good)} of {count(len(comparison.dispatchers), 'dispatcher')} {what}"
    return f"{stalled}{number}. Of these, the replay queue is smallest ({entries(fewest)} at most) under {names}."


def _basis(comparison: Comparison) -> Iterator[tuple[str, str]]:
    measures = comparison.given.measures
    yield "Traffic", comparison.traffic
    yield "Broker", f"Pulsar {comparison.version}"
    yield "Partitions", f"{comparison.partitions:,}, simulated one by one"
    yield "Entries", f"{measures['entries']:,} published"
    yield "Time", f"{duration(max(one.series.until_us for one in comparison.dispatchers) / 1e6)} simulated"
    yield "Seed", f"{comparison.seed}"
    yield "Audited", "what each dispatcher did" if comparison.audited else "no, so order is not judged"
    yield "Simulated", f"by dispatch-audit {code_version()}"


def _measures(comparison: Comparison) -> Iterator[MeasureRow]:
    brokers = tuple((f"{one.version}, {one.policy.replace('_', ' ')}", False) for one in comparison.dispatchers)
    yield MeasureRow("broker and policy", "The version that was simulated, and what its dispatcher does.", brokers)
    for column in COLUMNS:
        cells = tuple((column.cell(one.measures), column.is_wrong(one.measures)) for one in comparison.dispatchers)
        yield MeasureRow(column.title, column.meaning, cells)


def _sections(comparison: Comparison) -> Iterator[Section]:
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
