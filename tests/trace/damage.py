"""Ways in which the line of a row goes bad, with what is known of each."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from trace_rows import GOOD_ROWS

from benchmarks.line_damage import another_value, cut, flipped, noise, repeated_name

_DEEP = 10_000
_DIGITS = "9" * 100_000

# What may stand in a line, in pieces that a random line is put together of.
PIECES: Sequence[str] = (
    *'{}[]",:',
    *("null", "true", "-", "0", "1e5", "NaN", "Infinity", '"row"', '"event"', '"flow"', '"seq"'),
    *("\\", "\\ud800", "\\u0000"),
    *(" ", "\t", "\r", "\x00", "\ufeff", "\u2028", "\ud800", "'", "]}", "]},{", '"event":"end of"', "//", "/*"),
    *(json.dumps(row) for row in GOOD_ROWS),
)  # fmt: skip

# Values that no field of a row can take, as JSON.
NO_VALUES: Sequence[str] = (
    *("NaN", "Infinity", "-Infinity", "1.5", "1e400", "007", "+1", "0x7", "true", "{}", "[]", "[[]]", _DIGITS),
    *('"1"', '"\\ud800"', '"\ud800"', '"\\u0000"', '"a\x00b"', '{"a": {"b": []}}', str(2**63), str(-(2**63) - 1)),
    *("[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP, "null", "-1", '"\'; DROP TABLE runs; --"'),
    *('"../../x"', '"<script>alert(1)</script>"', '"$(touch x)`touch x`"', '"\\u001b[2J\\u0007"', '"\\ufffd"'),
)  # fmt: skip


def is_one_object(line: bytes) -> bool:
    """Whether a line holds one JSON object and nothing else, as Python's parser sees it."""
    try:
        # Numbers stay text: Python converts none of thousands of digits.
        found = json.loads(line.decode(errors="replace"), parse_int=str)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)


def damaged(row: Mapping[str, Any], dice: random.Random) -> bytes:
    """The line of a row, without its newline, spoilt in one random way; it may still be good."""
    line = json.dumps(row).encode()
    return dice.choice(_WAYS)(line, dice).replace(b"\n", b"")


def _inserted(line: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(line) + 1)
    return line[:at] + dice.choice(PIECES).encode(errors="surrogatepass") + line[at:]


def _pieces(_: bytes, dice: random.Random) -> bytes:
    return "".join(dice.choices(PIECES, k=dice.randrange(1, 8))).encode(errors="surrogatepass")


def _unknown_name(line: bytes, dice: random.Random) -> bytes:
    return line[:-1] + f', "an addition": {dice.choice(NO_VALUES)}}}'.encode(errors="surrogatepass")


def _twice(line: bytes, dice: random.Random) -> bytes:
    return line + dice.choice((b"", b",", b" ", b"]}")) + line


_another_value = partial(another_value, values=NO_VALUES)
_WAYS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    partial(flipped, bits=(1, 1, 2, 8)), cut, noise, _inserted, _pieces, _another_value, _another_value,
    partial(repeated_name, values=NO_VALUES), _unknown_name, _twice,
)  # fmt: skip
