"""Diagnoses as text: the answer of one subscription in one screen, of many a line each for those that need a look."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.statistics.diagnose import Result
from dispatch_audit.pipeline.statistics.diagnosis import ANSWERS, Answer, Diagnosis
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts
from dispatch_audit.pipeline.statistics.output import words

_STYLES: dict[Answer, str] = {"held_up": "bold red", "not_decidable": "bold yellow", "no_consumer": "bold yellow"}
_COLUMN = 9
_CONSUMERS_MAX = 6
_REASONS_MAX = 4
_LISTED_MAX = 20


def print_diagnoses(result: Result, console: Console, whole_max: int) -> None:
    """Writes the diagnoses.

    Args:
        result: of all inputs.
        console: where to; texts are wrapped to its width.
        whole_max: subscriptions that are shown with all facts; the others get a line each.
    """
    for line in _lines(result, whole_max):
        console.print(line, soft_wrap=True)


def _lines(result: Result, whole_max: int) -> Iterator[Text | Labelled]:
    many = len(result.diagnoses) > 1
    if many:
        numbers = Counter(diagnosis.answer for diagnosis in result.diagnoses)
        by_answer = ", ".join(
            f"{numbers[answer]:,} {words.ANSWER_WORDS[answer]}" for answer in ANSWERS if numbers[answer]
        )
        yield Text(f"{count(len(result.diagnoses), 'subscription')}: {by_answer}")
        yield Text()
    for diagnosis in result.diagnoses[:whole_max]:
        yield from _whole(diagnosis)
        yield Text()
    rest = result.diagnoses[whole_max:]
    for diagnosis in rest[:_LISTED_MAX]:
        yield _answer(diagnosis, f"{diagnosis.history.topic}, {diagnosis.history.subscription}: ")
    if len(rest) > _LISTED_MAX:
        yield Text(f"and {count(len(rest) - _LISTED_MAX, 'subscription')} more (--format json has all)")
    for sentence in result.log:
        yield _line("Log", words.stopped(sentence))
    for question in result.questions:
        yield _line("Ask", words.stopped(question))
    yield _line("Order", words.stopped(words.ORDER))
    for remark in result.remarks:
        yield _line("Left out", remark)


def _answer(diagnosis: Diagnosis, before: str = "") -> Labelled:
    word = words.ANSWER_WORDS[diagnosis.answer]
    style = _STYLES.get(diagnosis.answer, "bold green")
    text = printable(before + diagnosis.headline)
    return Labelled(Text(word, style=style), text, column=len(word) + 2, whole=bool(before))


def _whole(diagnosis: Diagnosis) -> Iterator[Text | Labelled]:
    yield _answer(diagnosis)
    yield _line("Topic", f"{diagnosis.history.topic}, subscription {words.about(diagnosis)}")
    yield _line("Taken", words.taken(diagnosis))
    dumps = len(diagnosis.history.moments)
    yield from (_line(name, text) for name, text in words.said_of(diagnosis))
    if diagnosis.facts is not None:
        yield from _facts(diagnosis.facts)
    others = list(words.rest_of(diagnosis.reasons))
    for reason in others[:_REASONS_MAX]:
        bugs = f" ({words.bug_labels(reason)})" if reason.bugs else ""
        yield _line("Also", f"{words.certainty_of(reason, dumps)}: {reason.title}{bugs} {words.stopped(reason.shown)}")
    if len(others) > _REASONS_MAX:
        yield _line("", f"and {count(len(others) - _REASONS_MAX, 'sign')} more (--format json has all)")
    if diagnosis.lacks:
        yield _line("Lacks", "; ".join(diagnosis.lacks))


def _facts(facts: SubscriptionFacts) -> Iterator[Text | Labelled]:
    yield _line("Backlog", words.backlog(facts))
    if reads := words.reads(facts):
        yield _line("Reads", reads)
    if moved := words.moved(facts):
        yield _line("Moved", moved)
    rows, left_out = words.consumer_rows(facts, _CONSUMERS_MAX)
    if rows:
        shown = [[printable(cell) for cell in row] for row in (words.CONSUMER_COLUMNS, *rows)]
        widths = [max(len(row[at]) for row in shown) for at in range(len(words.CONSUMER_COLUMNS))]
        for row in shown:
            cells = (
                cell.rjust(width) if at in words.CONSUMER_NUMERIC else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield Text(f"  {'  '.join(cells).rstrip()}")
    if left_out:
        yield Text(f"  and {count(left_out, 'consumer')} more")


def _line(name: str, text: str) -> Labelled:
    return Labelled(name, printable(text), _COLUMN)
