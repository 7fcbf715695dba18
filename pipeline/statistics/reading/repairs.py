"""Repairs what programs on the way did to JSON: each takes a whole text, and counts only if more can be read then."""

import html
import json
import re
from collections.abc import Iterator
from typing import Final

from dispatch_audit.pipeline.statistics.reading.text import without_prefixes
from dispatch_audit.pipeline.statistics.reading.walk import Walk

_REPAIRED_MAX: Final = 8 << 20
"""Characters of a text that is repaired; what people paste is smaller."""
_QUOTES: Final = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\uff02", '"'))
_PYTHON_MEMBER: Final = re.compile(r"[{,]\s*'[^'\n]+'\s*:")
_PYTHON_TOKEN: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*"|\b(None|True|False|nan)\b""", re.DOTALL)
_PYTHON_WORDS: Final = {"None": "null", "True": "true", "False": "false", "nan": "null"}
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|(?<=[\w.+-])[ \t]*\r?\n[ \t]*(?=[\w.+-])', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


def readable(text: str) -> Walk:
    """Returns a walk through a text; through a repaired one, if that lets more of it be read."""
    text = without_prefixes(text)
    best = text
    if len(text) <= _REPAIRED_MAX:
        most = _worth(text)
        # Whole and found: nothing is to be repaired.
        for repaired in _repaired(text) if most[:2] != (True, True) else ():
            worth = _worth(repaired)
            if worth > most:
                best, most = repaired, worth
    return Walk(best)


def _worth(text: str) -> tuple[bool, bool, int]:
    """How much of a text can be read: whether it has documents, whether they are whole, and of how many characters."""
    walk = Walk(text)
    number = sum(1 for _ in walk.documents())
    return number > 0, walk.cut_at is None, walk.used


def _repaired(text: str) -> Iterator[str]:
    """Yields the text with one repair more at a time."""
    for repair in (_unescaped, _with_quotes, _of_python, _joined):
        repaired = repair(text)
        if repaired != text:
            text = without_prefixes(repaired)
            yield text


def _unescaped(text: str) -> str:
    """JSON within a JSON text, and entities of a page."""
    if re.search(r'\\"\w+\\"\s*:', text):
        text = text.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n")
    return html.unescape(text) if "&quot;" in text or "&#34;" in text else text


def _with_quotes(text: str) -> str:
    """Straight quotes, which word processors and chats replace."""
    return text.translate(_QUOTES)


def _of_python(text: str) -> str:
    """A dictionary as Python prints it."""
    begin = _PYTHON_MEMBER.search(text)
    if begin is None:
        return text

    def token(match: re.Match[str]) -> str:
        if match[1] is not None:
            return json.dumps(match[1].replace("\\'", "'"), ensure_ascii=False)
        return _PYTHON_WORDS.get(match[2], match[0]) if match[2] else match[0]

    return text[: begin.start()] + _PYTHON_TOKEN.sub(token, text[begin.start() :])


def _joined(text: str) -> str:
    """Texts and numbers within braces, without the line breaks with which a terminal wraps them."""
    depth = 0

    def token(match: re.Match[str]) -> str:
        nonlocal depth
        found = match[0]
        if found in "{[":
            depth += 1
        elif found in "}]":
            depth = max(depth - 1, 0)
        elif depth and found[0] == '"':
            return _CONTROL.sub(" ", found.replace("\r", "").replace("\n", ""))
        elif depth:
            return ""
        return found

    return _TOKEN.sub(token, text)
