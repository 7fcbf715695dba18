"""Finds samples of Pulsar's metrics in a text: lines of a broker's `/metrics`, and answers of Prometheus and Grafana.

A line is a name, labels in braces, a value, and perhaps a time; `promtool` and the page of Prometheus write `=>` before
a value and `@` before a time, and list the values of a range one after the other.

Source: the text format 0.0.4 of Prometheus; its HTTP API, vectors and matrices; frames of Grafana's data sources.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

_SERIES: Final = re.compile(r"\b(pulsar_\w+)\{([^{}]*)\}\s*(?:=>\s*)?(?=[-+\d])")
_LABEL: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|Inf|NaN)"
_AT: Final = r"[ \t]*@[ \t]*\[?(\d+(?:\.\d+)?)\]?"
_POINT: Final = re.compile(rf"\s*({_NUMBER})(?:[ \t]+(\d{{9,}}(?:\.\d+)?)|{_AT})?")
_FURTHER: Final = re.compile(rf"\s+({_NUMBER}){_AT}")
_COMMENT: Final = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_BEGIN: Final = re.compile(r"\s*(?:\w+\{|#)|\S+ \$ ")
_NAME: Final = re.compile(r"\bpulsar_\w+")
_MILLISECONDS: Final = 10**11
"""A time from here on is in milliseconds: as seconds it would be the year 5138."""
_BEFORE: Final = 300


@dataclass(frozen=True)
class Series:
    """The values of one metric with its labels.

    Attributes:
        points: each with its time in milliseconds since 1970 UTC; None: not said.
        is_range: whether the times are those of a query over a range, which all its series share.
        before: the last text in front of it that is no metric, and may hold a time.
    """

    name: str
    labels: Mapping[str, str]
    points: tuple[tuple[int | None, float], ...]
    is_range: bool = False
    before: str = ""


def series_in(text: str) -> Iterator[Series]:
    """Yields the series that stand in a text as lines."""
    text, end, heading = _unwrapped(text) if "pulsar_" in text else "", 0, ""
    while (found := _SERIES.search(text, end)) is not None:
        point = _POINT.match(text, found.end())
        between = _COMMENT.sub("", text[max(found.start() - _BEFORE, end) : found.start()])
        heading = between if between.strip() else heading
        end = found.end()
        if point is None:
            continue
        end, points = point.end(), [(_ms(point[2] or point[3]), float(point[1]))]
        while (further := _FURTHER.match(text, end)) is not None:
            points.append((_ms(further[2]), float(further[1])))
            end = further.end()
        labels = dict(_LABEL.findall(found[2]))
        yield _series(found[1], labels, points, len(points) > 1, heading)


def _unwrapped(text: str) -> str:
    """The text without the line breaks of a terminal: those after lines of full width, before what begins no series."""
    lines = text.split("\n")
    width = max(map(len, lines))
    whole = lines[:1]
    for before, line in pairwise(lines):
        if len(before) == width and line and not _BEGIN.match(line):
            whole[-1] += line
        else:
            whole.append(line)
    return "\n".join(whole)


def series_of(value: Mapping[str, Any], before: str) -> Iterator[Series]:
    """Yields the series of an element of an answer of Prometheus, or of a frame of Grafana.

    Args:
        value: the object.
        before: the text in front of it; if it names one metric, that is the name of series without one.
    """
    if isinstance(value.get("schema"), dict):
        yield from _of_frame(value, before)
        return
    pairs = value.get("values")
    is_range = isinstance(pairs, list)
    listed = pairs if isinstance(pairs, list) else [value.get("value")]
    yield from _of_pairs(value["metric"], listed, is_range, before)


def _of_frame(frame: Mapping[str, Any], before: str) -> Iterator[Series]:
    fields, columns = frame["schema"].get("fields"), (frame.get("data") or {}).get("values")
    if not isinstance(fields, list) or not isinstance(columns, list) or not columns:
        return
    for field, column in zip(fields, columns, strict=False):
        labels = field.get("labels") if isinstance(field, dict) else None
        if isinstance(labels, dict) and isinstance(column, list) and isinstance(columns[0], list):
            yield from _of_pairs(labels, list(zip(columns[0], column, strict=False)), len(column) > 1, before)


def _of_pairs(labels: Mapping[str, Any], pairs: Sequence[Any], is_range: bool, before: str) -> Iterator[Series]:
    names = set(_NAME.findall(before))
    name = labels.get("__name__") or (names.pop() if len(names) == 1 else None)
    points = [(_ms(pair[0]), number) for pair in pairs if _is_pair(pair) and (number := _number(pair[1])) is not None]
    if name is not None and points:
        yield _series(str(name), {key: str(one) for key, one in labels.items()}, points, is_range, before)


def _series(
    name: str, labels: Mapping[str, str], points: Sequence[tuple[int | None, float]], is_range: bool, before: str
) -> Series:
    return Series(name, labels, tuple(one for one in points if math.isfinite(one[1])), is_range, before)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        return None


def _ms(at: object) -> int | None:
    number = _number(at)
    if number is None or not math.isfinite(number) or not 0 < number < _MILLISECONDS * 100:
        return None
    return int(number if number >= _MILLISECONDS else number * 1000)
