"""Diagnoses texts: reads their documents, puts moments together, and judges each Key_Shared subscription."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.statistics.clock import clock_of
from dispatch_audit.pipeline.statistics.diagnosis import ANSWERS, Diagnosis
from dispatch_audit.pipeline.statistics.judgement import diagnosed
from dispatch_audit.pipeline.statistics.model import KEY_SHARED
from dispatch_audit.pipeline.statistics.moments import History, histories
from dispatch_audit.pipeline.statistics.pairing import Dump
from dispatch_audit.pipeline.statistics.parse import topic_of
from dispatch_audit.pipeline.statistics.reading.documents import Document, Walk, is_html
from dispatch_audit.pipeline.statistics.recordings import Snapshots

STANDARD_INPUT: Final = "standard input"
"""The name of an input that is no file."""

_WAY_OUT: Final = "pass what `pulsar-admin topics stats` or `stats-internal` prints, or a folder of record-stats"
# A subscription that had no consumer since its topic was loaded has no type.
_JUDGED: Final = (KEY_SHARED, "None", None)
_NAMED_MAX: Final = 3


@dataclass(frozen=True)
class Input:
    """One text.

    Attributes:
        name: of its file.
        text: its content.
        modified_ms: when the file was last written, or standard input was read; None: not known.
        version: the release of the broker that the recording names; None: it names none.
    """

    name: str
    text: str
    modified_ms: int | None = None
    version: str | None = None


@dataclass(frozen=True)
class Result:
    """The diagnoses of all inputs.

    Attributes:
        diagnoses: those that need a look first.
        others: subscriptions that are not Key_Shared: topic, subscription and type.
        remarks: what was left out, a sentence each.
        questions: what the dumps leave open about themselves, a sentence each.
    """

    diagnoses: tuple[Diagnosis, ...]
    others: tuple[tuple[str, str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Whether something is proved that needs a look."""
        return any(diagnosis.is_alarm for diagnosis in self.diagnoses)


def diagnose(inputs: Iterable[Input], version: str | None = None) -> Result:
    """Returns the diagnoses of all Key_Shared subscriptions in some texts.

    Args:
        inputs: the texts, in any order.
        version: the release of the broker; None: not known, or as recordings say.

    Raises:
        TraceError: an input holds no statistics, or there is no Key_Shared subscription in all of them.
        UsageError: the version is no version number.
    """
    remarks: list[str] = []
    dumps = [dump for one in inputs for dump in _dumps(one, remarks)]
    found, questions = histories(dumps)
    ours = [history for history in found if _type(history) in _JUDGED]
    others = tuple((one.topic, one.subscription, str(_type(one))) for one in found if _type(one) not in _JUDGED)
    if not ours:
        raise TraceError(_none_of(others), "diagnose answers for Key_Shared subscriptions")
    diagnoses = [diagnosed(history, version) for history in ours]
    diagnoses.sort(key=lambda one: (not one.is_alarm, ANSWERS.index(one.answer)))
    return Result(tuple(diagnoses), others, tuple(remarks), tuple(questions))


def _type(history: History) -> str | None:
    subscription = history.moments[-1].subscription
    return None if subscription is None else subscription.type


def _none_of(others: Sequence[tuple[str, str, str]]) -> str:
    if not others:
        return "the statistics have no subscription"
    shown = ", ".join(f"{printable(name)} is {printable(kind)}" for _, name, kind in others[:_NAMED_MAX])
    more = f" and {len(others) - _NAMED_MAX:,} more" if len(others) > _NAMED_MAX else ""
    return f"the statistics have no Key_Shared subscription: {shown}{more}"


def _dumps(one: Input, remarks: list[str]) -> Iterator[Dump]:
    """Yields the dumps of a text, and notes what was left out of it."""
    if not one.text.strip():
        raise TraceError(f"{one.name} is empty", _WAY_OUT)
    if is_html(one.text):
        raise TraceError(f"{one.name} is an HTML page, such as a proxy or a login answers with", _WAY_OUT)
    walk, number, snapshots = Walk(one.text), 0, Snapshots()
    for document in walk.documents():
        number += 1
        if document.kind == "row":
            snapshots.add(document.value)
        else:
            yield _dump(document, one)
    yield from (Dump(one.name, topic, clock, one.version) for topic, clock in snapshots.topics())
    if not number:
        raise TraceError(_nothing_in(one, walk), _WAY_OUT)
    if walk.cut_at is not None:
        remarks.append(f"{one.name} is cut off or no JSON from line {walk.cut_at:,} on: what is whole before counts")


def _nothing_in(one: Input, walk: Walk) -> str:
    if not walk.objects:
        return f"{one.name} holds no JSON"
    cut = f", and is cut off at line {walk.cut_at:,}" if walk.cut_at is not None else ""
    return f"{one.name} holds {count(walk.objects, 'JSON object')} without statistics of topics{cut}"


def _dump(document: Document, one: Input) -> Dump:
    topic = topic_of(document.kind, document.value, document.topic, document.aggregated)
    clock = clock_of(PurePath(one.name).name, document.before, one.modified_ms)
    return Dump(one.name, topic, clock, one.version)
