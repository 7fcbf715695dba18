"""Parses the lists of a row; compiled.

As in `dispatch_audit.pipeline.trace.lines.tokens`, every function returns the index after what it found, or `DOUBT`.
"""

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.lines.compiled import compiled
from dispatch_audit.pipeline.trace.lines.layout import (
    ELEMENT_NAMES,
    ELEMENT_SIZES,
    INT_MAX,
    INT_MIN,
    POSITIONS,
    TEXTS,
    WORDS,
    ParsedRows,
)
from dispatch_audit.pipeline.trace.lines.tokens import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    DOUBT,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    Text,
    integer,
    item_after,
    named,
    null_end,
    space_end,
    string_end,
    value_at,
    value_end,
)


@compiled
def list_end(text: Text, at: int, kind: int, rows: ParsedRows) -> int:
    """Parses the list at `at` and adds its elements to `rows`."""
    if kind == WORDS:
        return _words_end(text, at, rows.words, rows.used, 1)
    if text[at] != OPEN_LIST:
        return DOUBT
    at = space_end(text, at + 1)
    if text[at] == CLOSE_LIST:
        return at + 1
    more = True
    while more:
        at = _item_end(text, at, rows) if kind == TEXTS else _element_end(text, at, kind, rows)
        at, more = item_after(text, at, CLOSE_LIST)
    return at


@compiled
def _item_end(text: Text, at: int, rows: ParsedRows) -> int:
    item = rows.used[0]
    if text[at] != QUOTE:
        end = null_end(text, at)
        rows.item_at[item], rows.item_size[item] = at, -1
    else:
        end = string_end(text, at + 1)
        rows.item_at[item], rows.item_size[item] = at + 1, end - at - 1
        end = DOUBT if end == DOUBT else end + 1
    rows.used[0] = item + 1
    return end


@compiled
def _words_end(text: Text, at: int, words: NDArray[np.int64], used: NDArray[np.int64], counter: int) -> int:
    """Parses the list of numbers at `at` and adds them to `words`; `used[counter]` is how many these have."""
    if text[at] != OPEN_LIST:
        return DOUBT
    at = space_end(text, at + 1)
    if text[at] == CLOSE_LIST:
        return at + 1
    more = True
    while more:
        words[used[counter]], at = integer(text, at)
        used[counter] += 1
        at, more = item_after(text, at, CLOSE_LIST)
    return at


@compiled
def _element_end(text: Text, at: int, kind: int, rows: ParsedRows) -> int:
    """Parses a position or a range; both have two numbers, and a position may have an ack set."""
    if text[at] != OPEN_OBJECT:
        return DOUBT
    at = space_end(text, at + 1)
    # The fields of ranges follow those of positions in the table of names.
    first_field, fields = (0, 3) if kind == POSITIONS else (3, 2)
    seen, numbers, has_set, more = 0, (0, 0), False, True
    while more:
        name = at + 1
        if text[at] != QUOTE:
            return DOUBT
        end = string_end(text, name)
        if end == DOUBT:
            return DOUBT
        field = -1
        for candidate in range(fields):
            known = first_field + candidate
            if named(text, name, end, ELEMENT_NAMES[known], ELEMENT_SIZES[known]):
                field = candidate
        at = value_at(text, name, end)
        if at == DOUBT:
            return DOUBT
        if field >= 0 and seen & (1 << field):
            return DOUBT
        seen |= 1 << field if field >= 0 else 0
        if field == -1:
            at = value_end(text, at)
        elif field == 2:
            has_set = text[at] == OPEN_LIST
            at = _words_end(text, at, rows.set_words, rows.used, 3) if has_set else null_end(text, at)
        else:
            value, at = integer(text, at)
            numbers = (value, numbers[1]) if field == 0 else (numbers[0], value)
        at, more = item_after(text, at, CLOSE_OBJECT)
    if at == DOUBT or seen & 3 != 3:
        return DOUBT
    if kind == POSITIONS:
        element = rows.used[2]
        rows.positions[0, element], rows.positions[1, element] = numbers
        rows.set_known[element], rows.set_end[element] = has_set, rows.used[3]
        rows.used[2] = element + 1
    else:
        if min(numbers) < INT_MIN or max(numbers) > INT_MAX:
            return DOUBT
        element = rows.used[4]
        rows.ranges[0, element], rows.ranges[1, element] = numbers
        rows.used[4] = element + 1
    return at
