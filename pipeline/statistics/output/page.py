"""Diagnoses as a page that needs no network, with the look of the page of a run (`pipeline/report/page`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.charts.theme import config
from dispatch_audit.pipeline.report.page.model import Section, Table
from dispatch_audit.pipeline.report.page.render import rendered_as
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.statistics.diagnose import Result
from dispatch_audit.pipeline.statistics.diagnosis import Answer, Diagnosis
from dispatch_audit.pipeline.statistics.output import words

_TEMPLATE: Final = "diagnosis.html.j2"
_WHOLE_MAX: Final = 20
_CONSUMERS_MAX: Final = 100
_LISTED_MAX: Final = 2_000
# The colours of the page of a run, by the answer.
_TONES: Final[Mapping[Answer, str]] = {"held_up": "violation", "not_decidable": "not_provable"}


@dataclass(frozen=True)
class DiagnosisPage:
    """What the page says; the template only lays it out.

    Attributes:
        verdict: how bad the first answer is, as the page of a run has it for its colours.
        said: what is certain, since when, and what to do, as names and texts.
        basis: what the answers rest on, as names and texts.
    """

    title: str
    verdict: str
    headline: str
    meaning: str
    said: tuple[tuple[str, str], ...]
    basis: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    themes: Mapping[str, Any]


def page_of(result: Result) -> str:
    """Returns the page as one HTML document."""
    return rendered_as(_TEMPLATE, built_page(result))


def built_page(result: Result) -> DiagnosisPage:
    """Returns what the page says."""
    if not result.diagnoses:
        raise TraceError("lines of a log alone have no page", "take the text, or pass statistics too")
    first = result.diagnoses[0]
    return DiagnosisPage(
        title=f"{first.history.topic}, {first.history.subscription}",
        verdict=_TONES.get(first.answer, "clean"),
        headline=words.ANSWER_WORDS[first.answer],
        meaning=first.headline,
        said=tuple(words.said_of(first)),
        basis=tuple(_basis(result)),
        sections=tuple(_sections(result)),
        themes={"light": config("light"), "dark": config("dark")},
    )


def _basis(result: Result) -> Iterator[tuple[str, str]]:
    first = result.diagnoses[0]
    yield "Topic", first.history.topic
    yield "Subscription", words.about(first)
    yield "Taken", words.taken(first)
    if len(result.diagnoses) > 1:
        yield "Subscriptions", f"{len(result.diagnoses):,}; this is the one that needs a look most"
    yield "Order", words.ORDER
    for sentence in result.log:
        yield "Log", sentence
    for question in result.questions:
        yield "Ask", question
    for remark in result.remarks:
        yield "Left out", remark
    yield "Diagnosed", f"by dispatch-audit {code_version()}"


def _sections(result: Result) -> Iterator[Section]:
    if len(result.diagnoses) > 1:
        shown = result.diagnoses[:_LISTED_MAX]
        rows = tuple(
            (one.history.topic, one.history.subscription, words.ANSWER_WORDS[one.answer], one.headline) for one in shown
        )
        table = Table(("topic", "subscription", "answer", "why"), rows, left_out=len(result.diagnoses) - len(rows))
        lead = "Those that need a look most come first."
        yield Section("all", "All", lead, f"{len(result.diagnoses):,}", tables=(("Subscriptions", table),))
    for number, diagnosis in enumerate(result.diagnoses[:_WHOLE_MAX], 1):
        lead = f"{words.ANSWER_WORDS[diagnosis.answer]}: {diagnosis.headline}"
        title = f"{diagnosis.history.topic}, {diagnosis.history.subscription}"
        yield Section(f"subscription-{number}", title, lead, tables=tuple(_tables(diagnosis)))


def _tables(diagnosis: Diagnosis) -> Iterator[tuple[str, Table]]:
    dumps = len(diagnosis.history.moments)
    signs = tuple(
        (
            words.certainty_of(reason, dumps),
            f"{reason.title} {words.bug_labels(reason)}".strip(),
            words.stopped(reason.shown),
            reason.since,
            reason.decide,
            reason.remedy,
        )
        for reason in diagnosis.reasons
    )
    if signs:
        yield "What was found", Table(("certainty", "what it means", "what is certain", "since", "decide", "do"), signs)
    facts = diagnosis.facts
    if facts is None:
        return
    named = {"Backlog": words.backlog(facts), "Reads": words.reads(facts), "Moved": words.moved(facts)}
    named["Lacks"] = "; ".join(diagnosis.lacks)
    yield "Facts", Table(("fact", "value"), tuple((name, text) for name, text in named.items() if text))
    rows, left_out = words.consumer_rows(facts, _CONSUMERS_MAX)
    caption = count(len(facts.consumers), "consumer")
    yield caption, Table(words.CONSUMER_COLUMNS, tuple(rows), words.CONSUMER_NUMERIC, left_out)
