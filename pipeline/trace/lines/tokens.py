"""Finds the ends of JSON values in bytes; compiled.

Every function takes the index of a byte and returns the index after what it found, or `DOUBT` where the text is not
JSON, or is JSON of a kind that no recorder writes. All of them accept less than a JSON parser, and never more. The text
ends with a newline, which no value contains, so that no function reads beyond its end.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.lines.compiled import compiled

Text = NDArray[np.uint8]

DOUBT: Final = -1
QUOTE, BACKSLASH, COMMA, COLON = ord('"'), ord("\\"), ord(","), ord(":")
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")
NEWLINE, MINUS, _ZERO, _NINE = ord("\n"), ord("-"), ord("0"), ord("9")
_U, _N, _T, _F = ord("u"), ord("n"), ord("t"), ord("f")

# The bytes at which the search for the end of a string stops: a quote, a backslash, and control characters.
_STOPS = np.zeros(256, dtype=np.bool_)
_STOPS[[*range(32), QUOTE, BACKSLASH]] = True
_HEX = np.zeros(256, dtype=np.bool_)
_HEX[[ord(digit) for digit in "0123456789abcdefABCDEF"]] = True
_ESCAPED = np.zeros(256, dtype=np.bool_)
_ESCAPED[[ord(character) for character in '"\\/bfnrt']] = True
# A bit for each open container; recorders nest a handful.
_DEPTH_MAX = 60
_LONG_MIN = -(2**63)
_TENTH_OF_MIN = -922_337_203_685_477_580


@compiled
def space_end(text: Text, at: int) -> int:
    """Returns the index of the next byte that is no space; a newline is none."""
    while text[at] == 32 or text[at] == 9 or text[at] == 13:
        at += 1
    return at


@compiled
def item_after(text: Text, at: int, closing: int) -> tuple[int, bool]:
    """Goes from the end of an item of a list or object to the next one.

    Args:
        text: the text.
        at: the index after the item, or DOUBT.
        closing: the bracket that ends the list or object.

    Returns:
        The index of the next item and True; or the index after the list or object, or DOUBT, and False.
    """
    if at == DOUBT:
        return DOUBT, False
    at = space_end(text, at)
    if text[at] == closing:
        return at + 1, False
    return (space_end(text, at + 1), True) if text[at] == COMMA else (DOUBT, False)


@compiled
def string_end(text: Text, at: int) -> int:
    """Returns the index of the closing quote of the string whose first byte is at `at`."""
    while True:
        while not _STOPS[text[at]]:
            at += 1
        if text[at] == QUOTE:
            return at
        if text[at] != BACKSLASH:
            return DOUBT
        if _ESCAPED[text[at + 1]]:
            at += 2
        elif text[at + 1] == _U:
            # One after the other: the text may end before.
            for digit in range(2, 6):
                if not _HEX[text[at + digit]]:
                    return DOUBT
            at += 6
        else:
            return DOUBT


@compiled
def null_end(text: Text, at: int) -> int:
    """Returns the index after `null`."""
    if text[at] == _N and text[at + 1] == _U and text[at + 2] == ord("l") and text[at + 3] == ord("l"):
        return at + 4
    return DOUBT


@compiled
def true_end(text: Text, at: int) -> int:
    """Returns the index after `true`."""
    if text[at] == _T and text[at + 1] == ord("r") and text[at + 2] == _U and text[at + 3] == ord("e"):
        return at + 4
    return DOUBT


@compiled
def false_end(text: Text, at: int) -> int:
    """Returns the index after `false`."""
    if text[at] == _F and text[at + 1] == ord("a") and text[at + 2] == ord("l") and text[at + 3] == ord("s"):
        return at + 5 if text[at + 4] == ord("e") else DOUBT
    return DOUBT


@compiled
def integer(text: Text, at: int) -> tuple[int, int]:
    """Returns a number of 64 bits and the index after it; DOUBT also for fractions and exponents."""
    negative = text[at] == MINUS
    if negative:
        at += 1
    first = at
    # Negative, because the lowest number has no positive counterpart.
    value = np.int64(0)
    while _ZERO <= text[at] <= _NINE:
        digit = np.int64(text[at]) - _ZERO
        if at - first >= 18 and (at - first > 18 or value < _TENTH_OF_MIN or (value == _TENTH_OF_MIN and digit > 8)):
            return 0, DOUBT
        value = value * 10 - digit
        at += 1
    digits = at - first
    if digits == 0 or (digits > 1 and text[first] == _ZERO):
        return 0, DOUBT
    if text[at] == ord(".") or text[at] == ord("e") or text[at] == ord("E"):
        return 0, DOUBT
    if negative:
        return value, at
    return (0, DOUBT) if value == _LONG_MIN else (-value, at)


@compiled
def _digits_end(text: Text, at: int) -> int:
    first = at
    while _ZERO <= text[at] <= _NINE:
        at += 1
    return at if at > first else DOUBT


@compiled
def _number_end(text: Text, at: int) -> int:
    if text[at] == MINUS:
        at += 1
    first = at
    at = _digits_end(text, at)
    if at == DOUBT or (text[first] == _ZERO and at > first + 1):
        return DOUBT
    if text[at] == ord("."):
        at = _digits_end(text, at + 1)
        if at == DOUBT:
            return DOUBT
    if text[at] == ord("e") or text[at] == ord("E"):
        at += 1
        if text[at] == MINUS or text[at] == ord("+"):
            at += 1
        at = _digits_end(text, at)
    # Parsers limit the length of numbers, each in its own way.
    return at if at - first < 300 else DOUBT


@compiled
def _scalar_end(text: Text, at: int) -> int:
    byte = text[at]
    if byte == QUOTE:
        end = string_end(text, at + 1)
        return DOUBT if end == DOUBT else end + 1
    if byte == _N:
        return null_end(text, at)
    if byte == _T:
        return true_end(text, at)
    if byte == _F:
        return false_end(text, at)
    return _number_end(text, at)


@compiled
def named(text: Text, at: int, end: int, name: Text, size: int) -> bool:
    """Whether the text from `at` to `end` is the name."""
    if end - at != size:
        return False
    for letter in range(size):  # noqa: SIM110  # numba compiles no generators
        if text[at + letter] != name[letter]:
            return False
    return True


@compiled
def value_at(text: Text, at: int, end: int) -> int:
    """Returns the index of the value of the field whose name is the string from `at` to `end`."""
    # A name that is written with escapes may be any name.
    for letter in range(at, end):
        if text[letter] == BACKSLASH:
            return DOUBT
    at = space_end(text, end + 1)
    return space_end(text, at + 1) if text[at] == COLON else DOUBT


@compiled
def _name_end(text: Text, at: int) -> int:
    if text[at] != QUOTE:
        return DOUBT
    end = string_end(text, at + 1)
    return DOUBT if end == DOUBT else value_at(text, at + 1, end)


@compiled
def value_end(text: Text, at: int) -> int:
    """Returns the index after a value of any kind."""
    depth, objects = 0, np.uint64(0)
    while True:
        byte = text[at]
        if byte in (OPEN_OBJECT, OPEN_LIST):
            closing = CLOSE_OBJECT if byte == OPEN_OBJECT else CLOSE_LIST
            at = space_end(text, at + 1)
            if text[at] != closing:
                if depth == _DEPTH_MAX:
                    return DOUBT
                depth += 1
                objects = (objects << np.uint64(1)) | np.uint64(byte == OPEN_OBJECT)
                if byte == OPEN_OBJECT:
                    at = _name_end(text, at)
                    if at == DOUBT:
                        return DOUBT
                continue
            at += 1
        else:
            at = _scalar_end(text, at)
            if at == DOUBT:
                return DOUBT
        # After a value: close what it ends.
        while True:
            if depth == 0:
                return at
            at = space_end(text, at)
            in_object = (objects & np.uint64(1)) == np.uint64(1)
            if text[at] == COMMA:
                at = space_end(text, at + 1)
                if in_object:
                    at = _name_end(text, at)
                    if at == DOUBT:
                        return DOUBT
                break
            if text[at] != (CLOSE_OBJECT if in_object else CLOSE_LIST):
                return DOUBT
            at += 1
            depth -= 1
            objects >>= np.uint64(1)
