"""Finds the documents in a text: statistics of topics, of managed ledgers, and rows of `record-stats`.

A document is recognised by its members and not by its place, so that a file may hold several, a map of topics
(partitions, a namespace), or a fragment such as one subscription. Topics are yielded one by one, so that the statistics
of thousands of partitions need the memory of one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from dispatch_audit.pipeline.statistics.pairing import UNNAMED
from dispatch_audit.pipeline.statistics.reading.json_scan import Cut, CutDict, members, value_at
from dispatch_audit.pipeline.statistics.reading.text import without_prefixes

DocumentKind = Literal["stats", "internal", "row"]

_PARTITIONS: Final = "partitions"
_NESTED_MAX: Final = 5
# Opening braces that are tried; a log may have many that begin no JSON.
_STARTS_MAX: Final = 20_000
_BEFORE: Final = 600
_HTML: Final = re.compile(r"\s*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_COMMANDS: Final = (
    re.compile(r"stats(?:-internal)?\b[^\n{]*?((?:non-)?persistent://[^\s'\"{]+|[\w.-]+/[\w.-]+/[^\s'\"{]+)"),
    re.compile(r"topics\s+(?:partitioned-)?stats(?:-internal)?\s+(?:-{1,2}\S+\s+)*([\w.-]+)[ \t]*[\r\n]"),
)


@dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        topic: that a key, or the command before it, names; None: not known.
        value: the object; a `CutDict` if the text ends, or goes on with something else, inside of it.
        aggregated: whether it is the sum over the partitions of a topic.
        before: the text in front of it, which may hold a time.
    """

    kind: DocumentKind
    topic: str | None
    value: dict[str, Any]
    aggregated: bool = False
    before: str = ""


@dataclass
class Walk:
    """Reads one text once.

    Attributes:
        objects: JSON objects that were found, statistics or not.
        cut_at: line at which the first object is cut off, from 1; None: none is.
    """

    text: str
    objects: int = 0
    cut_at: int | None = None
    _end: int = 0
    _cut: bool = False

    def __post_init__(self) -> None:
        self.text = without_prefixes(self.text)

    def documents(self) -> Iterator[Document]:
        """Yields the documents in their order."""
        at, starts = self.text.find("{"), 0
        while at >= 0 and starts < _STARTS_MAX:
            starts += 1
            before = self.text[max(at - _BEFORE, 0) : at]
            self._end, self._cut = at + 1, False
            yield from self._object(at, _topic_in(before), before)
            if self._cut and self.cut_at is None and self._end > at + 1:
                self.cut_at = self.text.count("\n", 0, min(self._end, len(self.text))) + 1
            at = self.text.find("{", max(self._end, at + 1))

    def _object(self, at: int, topic: str | None, before: str) -> Iterator[Document]:
        """Yields the documents of an object; `_end` and `_cut` are then those of the object."""
        own: dict[str, Any] = {}
        handed_on, steps = 0, members(self.text, at)
        try:
            key, begin = next(steps)
            self.objects += 1
            while not self._cut:
                if key == _PARTITIONS and self.text[begin : begin + 1] == "{":
                    own[key] = 0
                    for found in self._object(begin, topic, before):
                        own[key] += 1
                        yield found
                else:
                    value = self._value(begin)
                    named = _named(value, key, before) if isinstance(value, dict) and "/" in key else None
                    if named is not None:
                        handed_on += 1
                        yield named
                    elif value is not None:
                        own[key] = value
                if not self._cut:
                    key, begin = steps.send(self._end)
        except Cut as stop:
            self._end, self._cut = max(stop.at, self._end), True
        except StopIteration:
            self._end = self.text.find("}", self._end) + 1 or len(self.text)
        if not handed_on and not own.get(_PARTITIONS):
            yield from _documents_of(CutDict(own) if self._cut else own, topic, before, 0)

    def _value(self, begin: int) -> Any:
        try:
            value, self._end = value_at(self.text, begin)
        except Cut as stop:
            value, self._end, self._cut = stop.value, stop.at, True
        return value


def is_html(text: str) -> bool:
    """Whether a text is a page, such as a proxy answers with."""
    return _HTML.match(text[:200]) is not None


def _named(value: dict[str, Any], key: str, before: str) -> Document | None:
    """The document that is the value of a key with the name of a topic."""
    kind = _kind(value)
    return None if kind is None else Document(kind, key, value, before=before)


def _documents_of(value: dict[str, Any], topic: str | None, before: str, depth: int) -> Iterator[Document]:
    """Yields the document that an object is, or else the documents in it."""
    kind = _kind(value)
    if kind is not None:
        # Without `--per-partition` a broker answers with sums, and no partition by name.
        yield Document(kind, topic, value, kind == "stats" and _PARTITIONS in value, before)
    elif _is_subscription(value):
        yield Document("stats", topic, {"subscriptions": {UNNAMED: value}}, before=before)
    elif _is_cursor(value):
        yield Document("internal", topic, {"cursors": {UNNAMED: value}}, before=before)
    elif any(isinstance(inner, dict) and _is_subscription(inner) for inner in value.values()):
        yield Document("stats", topic, {"subscriptions": value}, before=before)
    elif any(isinstance(inner, dict) and _is_cursor(inner) for inner in value.values()):
        yield Document("internal", topic, {"cursors": value}, before=before)
    elif depth < _NESTED_MAX:
        for key, inner in value.items():
            if isinstance(inner, dict):
                yield from _documents_of(inner, key if "/" in key else topic, before, depth + 1)


def _kind(value: dict[str, Any]) -> DocumentKind | None:
    if value.get("event") == "stats" and isinstance(value.get("snapshot"), dict):
        return "row"
    if isinstance(value.get("subscriptions"), dict):
        return "stats"
    if isinstance(value.get("cursors"), dict):
        return "internal"
    return None


def _is_subscription(value: dict[str, Any]) -> bool:
    return isinstance(value.get("consumers"), list) and not value.keys().isdisjoint(("type", "msgBacklog"))


def _is_cursor(value: dict[str, Any]) -> bool:
    return "markDeletePosition" in value and "readPosition" in value


def _topic_in(before: str) -> str | None:
    """The topic that the last command in front of a document names."""
    # An earlier document may stand there too.
    near = before[before.rfind("}") + 1 :]
    for command in _COMMANDS:
        if found := command.findall(near):
            return str(found[-1])
    return None
