"""Diagnoses texts: reads their documents, puts moments together, and judges each subscription."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.statistics.clock import clock_of
from dispatch_audit.pipeline.statistics.diagnosis import ANSWERS, Diagnosis
from dispatch_audit.pipeline.statistics.judgement import diagnosed, standing
from dispatch_audit.pipeline.statistics.metrics import Metrics
from dispatch_audit.pipeline.statistics.moments import histories
from dispatch_audit.pipeline.statistics.pairing import Dump
from dispatch_audit.pipeline.statistics.parse import topic_of
from dispatch_audit.pipeline.statistics.reading.documents import Document
from dispatch_audit.pipeline.statistics.reading.log_lines import sentences_of, topic_in
from dispatch_audit.pipeline.statistics.reading.repairs import readable
from dispatch_audit.pipeline.statistics.reading.samples import series_in, series_of
from dispatch_audit.pipeline.statistics.reading.text import is_html
from dispatch_audit.pipeline.statistics.reading.walk import Walk
from dispatch_audit.pipeline.statistics.recordings import Snapshots

STANDARD_INPUT: Final = "standard input"
"""The name of an input that is no file."""

_NAMED_MAX: Final = 3
_WAY_OUT: Final = "pass what `pulsar-admin topics stats` or `stats-internal` prints, or a folder of record-stats"
_NO_SUBSCRIPTION: Final = (
    "pass metrics with labels topic and subscription (exposeTopicLevelMetricsInPrometheus=true in broker.conf), or "
    "what `pulsar-admin topics stats` prints"
)


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
        remarks: what was left out, a sentence each.
        log: what lines of logs mean, a sentence each.
        questions: what the dumps leave open about themselves, a sentence each.
    """

    diagnoses: tuple[Diagnosis, ...]
    remarks: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Whether something is proved that needs a look."""
        return any(diagnosis.is_alarm for diagnosis in self.diagnoses)


def diagnose(inputs: Iterable[Input], version: str | None = None) -> Result:
    """Returns the diagnoses of all subscriptions in some texts.

    Args:
        inputs: the texts, in any order.
        version: the release of the broker; None: not known, or as recordings say.

    Raises:
        TraceError: an input holds no statistics, or there is no subscription in all of them.
        UsageError: the version is no version number.
    """
    remarks: list[str] = []
    log: list[str] = []
    dumps = [dump for one in inputs for dump in _dumps(one, remarks, log)]
    found, questions = histories(dumps)
    if not found and log:
        return Result((), tuple(remarks), (), tuple(log))
    if not found:
        raise TraceError("the statistics have no subscription", _WAY_OUT)
    diagnoses = [diagnosed(history, version) for history in found]
    diagnoses = [_with_partitions(one, diagnoses) for one in diagnoses]
    diagnoses.sort(key=lambda one: (not one.is_alarm, ANSWERS.index(one.answer), not standing(one)))
    return Result(tuple(diagnoses), tuple(remarks), tuple(questions), tuple(log))


def _with_partitions(diagnosis: Diagnosis, others: list[Diagnosis]) -> Diagnosis:
    """The diagnosis of sums over partitions, with the partitions that stand; any other as it is."""
    history = diagnosis.history
    if not history.moments[-1].aggregated:
        return diagnosis
    partitions = [one for one in others if one.history.subscription == history.subscription and one.facts is None]
    stand = [f"{one.history.topic}: {clause}" for one in partitions if (clause := standing(one))]
    if not stand:
        return diagnosis
    more = f"; and {len(stand) - _NAMED_MAX:,} more" if len(stand) > _NAMED_MAX else ""
    headline = (
        f"of {count(len(partitions), 'partition')} {len(stand):,} stand still ({'; '.join(stand[:_NAMED_MAX])}{more})"
    )
    return replace(diagnosis, headline=f"{headline}. By the sums {diagnosis.headline}")


def _dumps(one: Input, remarks: list[str], log: list[str]) -> Iterator[Dump]:
    """Yields the dumps of a text, and notes what was left out of it."""
    if not one.text.strip():
        raise TraceError(f"{one.name} is empty", _WAY_OUT)
    if is_html(one.text):
        raise TraceError(f"{one.name} is an HTML page, such as a proxy or a login answers with", _WAY_OUT)
    walk, number, snapshots, metrics = readable(one.text), 0, Snapshots(), Metrics()
    for document in walk.documents():
        number += 1
        if document.kind == "row":
            snapshots.add(document.value)
        elif document.kind == "samples":
            for series in series_of(document.value, document.place.before):
                metrics.add(series)
        else:
            yield _dump(document, one)
    for series in series_in(one.text):
        metrics.add(series)
    moments = (*snapshots.topics(), *metrics.topics(PurePath(one.name).name, one.modified_ms))
    yield from (Dump(one.name, topic, clock, one.version) for topic, clock in moments)
    number += len(moments)
    lines = [] if number else list(sentences_of(one.text))
    log += lines
    if not number and not lines:
        if metrics.without_subscription:
            raise TraceError(f"the metrics of {one.name} do not name subscriptions", _NO_SUBSCRIPTION)
        raise TraceError(_nothing_in(one, walk), _way_out(one.text))
    if walk.cut_at is not None:
        remarks.append(f"{one.name} is cut off or no JSON from line {walk.cut_at:,} on: what is whole before counts")


def _nothing_in(one: Input, walk: Walk) -> str:
    if not walk.objects:
        return f"{one.name} holds no JSON"
    cut = f", and is cut off at line {walk.cut_at:,}" if walk.cut_at is not None else ""
    return f"{one.name} holds {count(walk.objects, 'JSON object')} without statistics of topics{cut}"


def _way_out(text: str) -> str:
    """What to pass instead; the commands, if the text names a topic."""
    topic = topic_in(text)
    if topic is None:
        return _WAY_OUT
    return f"pass what this prints: pulsar-admin topics stats {topic}; pulsar-admin topics stats-internal {topic}"


def _dump(document: Document, one: Input) -> Dump:
    topic = topic_of(document.kind, document.value, document.place.topic, document.aggregated)
    clock = clock_of(PurePath(one.name).name, document.place.before, one.modified_ms)
    return Dump(one.name, topic, clock, one.version)
