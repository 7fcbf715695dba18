"""Finds the documents in a text, in front of and between whatever else it holds.

Topics are yielded one by one, so that the statistics of thousands of partitions need the memory of one. A piece may
begin with a member of an object (`"consumers" : [`): it is read as if its braces stood there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.statistics.pairing import UNNAMED
from dispatch_audit.pipeline.statistics.reading.documents import PARTITIONS, Document, Place, documents_of, named
from dispatch_audit.pipeline.statistics.reading.json_scan import Cut, CutDict, members, value_at

# Opening braces that are tried; a log may have many that begin no JSON.
_STARTS_MAX: Final = 20_000
_BEFORE: Final = 600
_MEMBER: Final = re.compile(r'"[A-Za-z][^"\\\n]*"\s*:(?=\s*["{\[\dtfn-])')
_BETWEEN_CONSUMERS: Final = re.compile(r"[\s,]*")
_COMMANDS: Final = (
    re.compile(r"stats(?:-internal)?\b[^\n{]*?((?:non-)?persistent://[^\s'\"{|]+|[\w.-]+/[\w.-]+/[^\s'\"{|]+)"),
    re.compile(r"topics\s+(?:partitioned-)?stats(?:-internal)?\s+(?:-{1,2}\S+\s+)*([\w.-]+)[ \t]*(?:[\r\n]|\|)"),
    re.compile(r"/admin/v2/((?:non-)?persistent/[\w.%-]+/[\w.%-]+/[\w.%-]+)/(?:internalS|s)tats"),
)
_FILTER: Final = re.compile(r"(?:subscriptions|cursors)(?:\.(\w+)|\.?\[?\s*\\?[\"']+([^\"'\\\n]+))")


@dataclass
class Walk:
    """Reads one text once.

    Attributes:
        objects: JSON objects that were found, statistics or not.
        cut_at: line at which the first object is cut off, from 1; None: none is.
        used: characters of objects that held documents.
    """

    text: str
    objects: int = 0
    cut_at: int | None = None
    used: int = 0
    _end: int = 0
    _cut: bool = False

    def documents(self) -> Iterator[Document]:
        """Yields the documents in their order."""
        consumers: list[Document] = []
        before_end, after_cut = 0, False
        for at in self._starts():
            before = self.text[max(at - _BEFORE, before_end if before_end <= at else 0) : at]
            place = _place(before)
            found = False
            for document in self._object(at, place):
                if document.kind == "consumer":
                    # What follows the cut of a document is a rest of it.
                    if consumers and not _BETWEEN_CONSUMERS.fullmatch(self.text, before_end, at):
                        yield _of_consumers(consumers)
                        consumers = []
                    consumers += [] if after_cut else [document]
                else:
                    if consumers:
                        yield _of_consumers(consumers)
                        consumers = []
                    after_cut = False
                    yield document
                found = True
            if self._cut:
                after_cut = True
                if self.cut_at is None and self._end > at + 1:
                    self.cut_at = self.text.count("\n", 0, min(self._end, len(self.text))) + 1
            self.used += self._end - at if found else 0
            before_end = self._end
        if consumers:
            yield _of_consumers(consumers)

    def _starts(self) -> Iterator[int]:
        """Yields where each object begins; `_end` is where the one before it ended."""
        self._end = 0
        for _ in range(_STARTS_MAX):
            brace = self.text.find("{", self._end)
            limit = brace + 1 if brace >= 0 else len(self.text)
            # What follows a cut is a rest of the document that is cut off.
            member = None if self._cut else _MEMBER.search(self.text, self._end, limit)
            if member is None and brace < 0:
                return
            at = brace if member is None else member.start() - 1
            self._end, self._cut = at + 1, False
            yield at
            self._end = max(self._end, at + 1)

    def _object(self, at: int, place: Place) -> Iterator[Document]:
        """Yields the documents of an object; `_end` and `_cut` are then those of the object."""
        own: dict[str, Any] = {}
        is_piece = self.text[at : at + 1] != "{"
        handed_on, steps = 0, members(self.text, at)
        try:
            key, begin = next(steps)
            self.objects += 1
            # Lines that were picked out of a document begin a new object where a member comes again.
            while not self._cut and not (is_piece and key in own):
                if key == PARTITIONS and self.text[begin : begin + 1] == "{":
                    own[key] = 0
                    for found in self._object(begin, place):
                        own[key] += 1
                        yield found
                else:
                    value = self._value(begin)
                    document = named(value, key, place) if isinstance(value, dict) and "/" in key else None
                    if document is not None:
                        handed_on += 1
                        yield document
                    elif value is not None:
                        own[key] = value
                    elif self._cut and is_piece:
                        # The end of the text may be part of a longer number, so the member does not count.
                        self._cut = False
                        break
                if not self._cut:
                    key, begin = steps.send(self._end)
        except Cut as stop:
            # A piece ends where its members end.
            self._end, self._cut = max(stop.at, self._end), not is_piece
        except StopIteration:
            self._end = self.text.find("}", self._end) + 1 or len(self.text)
        if not handed_on and not own.get(PARTITIONS):
            yield from documents_of(CutDict(own) if self._cut else own, place)

    def _value(self, begin: int) -> Any:
        try:
            value, self._end = value_at(self.text, begin)
        except Cut as stop:
            value, self._end, self._cut = stop.value, stop.at, True
        return value


def _of_consumers(consumers: list[Document]) -> Document:
    """The statistics of a subscription of which consumers were pasted, and nothing else."""
    place = consumers[0].place
    name, listed = place.subscription or UNNAMED, [one.value for one in consumers]
    return Document("stats", {"subscriptions": {name: {"consumers": listed}}}, place)


def _place(before: str) -> Place:
    """What the last command in front of a document names."""
    # An earlier document may stand there too.
    near = before[before.rfind("}") + 1 :]
    topic = next((found[-1] for command in _COMMANDS if (found := command.findall(near))), None)
    subscriptions = _FILTER.findall(near)
    if topic is not None:
        topic = re.sub(r"^((?:non-)?persistent)/", r"\1://", topic)
    return Place(topic, "".join(subscriptions[-1]) if subscriptions else None, before)
