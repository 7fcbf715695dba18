"""Reads JSON out of a text, and keeps the whole members of what is cut off.

A container that ends too early, or goes on with what is no JSON, becomes a `CutDict` or `CutList` of its whole members.
A number or text at the very end may be part of a longer one, and does not count.
"""

import json
from collections.abc import Generator
from typing import Any, Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"
_FOLLOWING: Final = (",", "}", "]", ":")
_DEPTH_MAX: Final = 12


class CutDict(dict[str, Any]):
    """The whole members of an object that is cut off."""


class CutList(list[Any]):
    """The whole elements of an array that is cut off."""


class Cut(Exception):  # noqa: N818 - it is no error: the end of what is whole
    """The text is cut off within a value.

    Attributes:
        value: the whole members of the value, a `CutDict` or `CutList`; None: it has none.
        at: position up to which the text was read.
    """

    def __init__(self, value: Any, at: int) -> None:
        super().__init__()
        self.value = value
        self.at = at


def value_at(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    """Returns the value that begins at a position, and where it ends.

    Raises:
        Cut: it is not whole.
    """
    at = _skipped(text, at)
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        # No statistics are as deep. To try each of its braces would take time with their square.
        raise Cut(None, len(text)) from None
    except ValueError:
        if text[at : at + 1] == "{":
            raise Cut(*_whole_members(text, at, depth)) from None
        if text[at : at + 1] == "[":
            raise Cut(*_whole_elements(text, at, depth)) from None
        raise Cut(None, at) from None
    # "12." is read as 12: only what follows shows that a number is whole.
    if not isinstance(value, (dict, list)) and text[(after := _skipped(text, end)) : after + 1] not in _FOLLOWING:
        raise Cut(None, at)
    return value, end


def members(text: str, at: int, depth: int = 0) -> Generator[tuple[str, int], int, None]:
    """Yields the key of each member of an object and where its value begins.

    The caller sends back where the value ends, so that it decides how the value is read.

    Args:
        text: with the object.
        at: position of its `{`.
        depth: of the object.

    Raises:
        Cut: the object is not whole.
    """
    at = _skipped(text, at + 1)
    if text[at : at + 1] == "}":
        return
    while True:
        key, at = value_at(text, at, depth + 1)
        at = _skipped(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise Cut(None, at)
        end = yield key, _skipped(text, at + 1)
        at = _skipped(text, end)
        if text[at : at + 1] == "}":
            return
        if text[at : at + 1] != ",":
            raise Cut(None, at)
        at = _skipped(text, at + 1)


def _whole_members(text: str, at: int, depth: int) -> tuple[CutDict | None, int]:
    if depth >= _DEPTH_MAX:
        return None, at
    found, steps = CutDict(), members(text, at, depth)
    try:
        key, begin = next(steps)
        while True:
            try:
                found[key], end = value_at(text, begin, depth + 1)
            except Cut as cut:
                if cut.value is not None:
                    found[key] = cut.value
                return found, cut.at
            key, begin = steps.send(end)
    except Cut as cut:
        return found, cut.at
    except StopIteration:
        return found, len(text)


def _whole_elements(text: str, at: int, depth: int) -> tuple[CutList | None, int]:
    found = CutList()
    if depth >= _DEPTH_MAX:
        return None, at
    at = _skipped(text, at + 1)
    try:
        while True:
            value, at = value_at(text, at, depth + 1)
            found.append(value)
            at = _skipped(text, at)
            if text[at : at + 1] != ",":
                return found, at
            at = _skipped(text, at + 1)
    except Cut as cut:
        if cut.value is not None:
            found.append(cut.value)
        return found, cut.at


def _skipped(text: str, at: int) -> int:
    """The position of the next character that is no space."""
    while text[at : at + 1] in _SPACE and at < len(text):
        at += 1
    return at
