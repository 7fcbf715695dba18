"""Decodes a file, and removes what stands in front of the lines of a pasted JSON document.

Logs, `kubectl`, `docker compose` and quoting put a prefix in front of each line. It is recognised by its shape, digits
aside, in front of lines that are members of a JSON object, and removed from all lines that begin with that shape.
"""

import re
from collections import Counter
from typing import Final

from dispatch_audit.pipeline.errors import TraceError

BYTES_MAX: Final = 512 << 20
"""The largest input that is read; it bounds the memory."""

_HTML: Final = re.compile(r"\s*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_MEMBER: Final = re.compile(r'^(?P<prefix>[^"{}]*?)\s*"[A-Za-z][\w.:/-]*"\s*:')
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINES: Final = 400
_MEMBERS_MIN: Final = 3
_SHARE_MIN: Final = 0.8
# Of a byte-order mark; PowerShell redirects output as UTF-16.
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def decoded(data: bytes, name: str) -> str:
    """Returns the text of a file.

    Args:
        data: its content.
        name: for messages.

    Raises:
        TraceError: it holds more than `BYTES_MAX` bytes, or no text.
    """
    if len(data) > BYTES_MAX:
        raise too_large(name)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    if b"\0" in data[:4096]:
        raise TraceError(f"{name} is no text", "pass what `pulsar-admin topics stats` prints")
    return data.decode("utf-8", errors="replace")


def too_large(name: str) -> TraceError:
    """The error for an input that is not read because of its size."""
    way_out = "pass the statistics of fewer topics, or of one partition"
    return TraceError(f"{name} is larger than {BYTES_MAX >> 20} MB, which is the limit", way_out)


def is_html(text: str) -> bool:
    """Whether a text is a page, such as a proxy answers with."""
    return _HTML.match(text[:200]) is not None


def without_prefixes(text: str) -> str:
    """Returns a text without the prefix of its lines, colours of a terminal, and spaces that JSON does not know."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\xa0" in text:
        text = text.replace("\xa0", " ")
    pattern = _prefix_of(text)
    if pattern is None:
        return text
    # The line's end stays, so that line numbers in messages are those of the file.
    return "\n".join(pattern.sub("", line, count=1) for line in text.split("\n"))


def _prefix_of(text: str) -> re.Pattern[str] | None:
    """Returns what matches the prefix of lines; None: they have none."""
    start = max(text.find("{"), 0)
    lines = text[start : start + 64 * _LINES].split("\n")[1:_LINES]
    matches = [match["prefix"].rstrip() for line in lines if (match := _MEMBER.match(line))]
    # Another document may have none. What ends with a comma is the value of the member before, on a line of its own.
    prefixes = [prefix for prefix in matches if prefix and not prefix.endswith(",")]
    shapes = Counter(re.sub(r"\d+", "0", prefix) for prefix in prefixes)
    if not shapes:
        return None
    shape, number = shapes.most_common(1)[0]
    if number < _MEMBERS_MIN or number < _SHARE_MIN * len(prefixes):
        return None
    return re.compile("^" + r"\d+".join(map(re.escape, shape.split("0"))))
