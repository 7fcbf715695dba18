"""Parses the lines of a block into arrays; compiled.

Lines that this parser is not sure about go to `dispatch_audit.pipeline.trace.lines.one_line`: text that is no JSON,
values of other types or beyond their type, a field that is there twice, a name with escapes, elements without their
numbers, and deep nesting. Bytes that are not ASCII are taken as they are.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.lines.compiled import compiled
from dispatch_audit.pipeline.trace.lines.different_texts import number_texts
from dispatch_audit.pipeline.trace.lines.layout import (
    ALONE,
    BOOL,
    FIELD_AT,
    FIRST_FACTOR,
    INT_MAX,
    INT_MIN,
    IS_INT,
    JSON,
    KINDS,
    LAST_FACTOR,
    NAME_TABLE_SIZE,
    NAMES,
    NUMBER,
    SIZE_FACTOR,
    SIZES,
    SLOTS,
    TEXT,
    ParsedRows,
)
from dispatch_audit.pipeline.trace.lines.lists import list_end
from dispatch_audit.pipeline.trace.lines.tokens import (
    CLOSE_OBJECT,
    DOUBT,
    NEWLINE,
    OPEN_OBJECT,
    QUOTE,
    Text,
    false_end,
    integer,
    item_after,
    named,
    null_end,
    space_end,
    string_end,
    true_end,
    value_at,
    value_end,
)

_N, _T = ord("n"), ord("t")

BLANK: Final = 0
ROW: Final = 1
DOUBTFUL: Final = 2


@compiled
def parse_block(text: Text, line_at: NDArray[np.int64], verdicts: NDArray[np.int8], rows: ParsedRows) -> int:
    """Parses every line of a block.

    Args:
        text: whole lines, the last of them with a newline.
        line_at: to be filled with the first byte of each line, and at the end the size of the text.
        verdicts: to be filled with what each line is.
        rows: to be filled.

    Returns:
        How many rows were parsed.
    """
    at, row, line = 0, 0, 0
    while at < text.size:
        line_at[line] = at
        start = space_end(text, at)
        end = start
        if text[start] == NEWLINE:
            verdicts[line] = BLANK
        else:
            _copy(rows.used, rows.used_before)
            end = _row_end(text, start, row, rows)
            if end != DOUBT:
                end = space_end(text, end)
                end = end if text[end] == NEWLINE else DOUBT
            if end == DOUBT:
                verdicts[line] = DOUBTFUL
                _copy(rows.used_before, rows.used)
                _forget(row, rows)
                end = start
                while text[end] != NEWLINE:
                    end += 1
            else:
                verdicts[line] = ROW
                rows.line[row] = line
                number_texts(text, row, rows)
                rows.list_end[0, row], rows.list_end[1, row] = rows.used[0], rows.used[1]
                rows.list_end[2, row], rows.list_end[3, row] = rows.used[2], rows.used[4]
                row += 1
        at = end + 1
        line += 1
    line_at[line] = at
    return row


@compiled
def _copy(source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
    # A copy of a slice would need memory of its own.
    for at in range(source.size):
        target[at] = source[at]


@compiled
def _forget(row: int, rows: ParsedRows) -> None:
    for slot in range(rows.text_size.shape[0]):
        rows.text_size[slot, row] = -1
    for slot in range(rows.known.shape[0]):
        rows.known[slot, row] = False
    for slot in range(rows.list_known.shape[0]):
        rows.list_known[slot, row] = False


@compiled
def _row_end(text: Text, at: int, row: int, rows: ParsedRows) -> int:
    if text[at] != OPEN_OBJECT:
        return DOUBT
    at = space_end(text, at + 1)
    if text[at] == CLOSE_OBJECT:
        return at + 1
    seen, more = np.uint64(0), True
    while more:
        name = at + 1
        if text[at] != QUOTE:
            return DOUBT
        end = string_end(text, name)
        if end == DOUBT:
            return DOUBT
        at = value_at(text, name, end)
        if at == DOUBT:
            return DOUBT
        field = _field(text, name, end)
        if field == -1:
            at = value_end(text, at)
        else:
            bit = np.uint64(1) << np.uint64(field)
            if seen & bit:
                return DOUBT
            seen |= bit
            at = null_end(text, at) if text[at] == _N else _field_end(text, at, field, row, rows)
        at, more = item_after(text, at, CLOSE_OBJECT)
    return at


@compiled
def _field(text: Text, at: int, end: int) -> int:
    """Returns the number of the field whose name is the text from `at` to `end`; -1: unknown."""
    if end == at:
        return -1
    # Uncompiled, the product of a byte would be a byte.
    first, last = np.int64(text[at]), np.int64(text[end - 1])
    place = first * FIRST_FACTOR + last * LAST_FACTOR + (end - at) * SIZE_FACTOR
    field = FIELD_AT[place % NAME_TABLE_SIZE]
    return field if field >= 0 and named(text, at, end, NAMES[field], SIZES[field]) else -1


@compiled
def _field_end(text: Text, at: int, field: int, row: int, rows: ParsedRows) -> int:
    kind, slot = KINDS[field], SLOTS[field]
    if kind == ALONE:
        return DOUBT
    if kind == TEXT:
        if text[at] != QUOTE:
            return DOUBT
        end = string_end(text, at + 1)
        rows.text_at[slot, row], rows.text_size[slot, row] = at + 1, end - at - 1
        return DOUBT if end == DOUBT else end + 1
    if kind == NUMBER:
        value, end = integer(text, at)
        rows.numbers[slot, row], rows.known[slot, row] = value, True
        return DOUBT if IS_INT[field] and (value < INT_MIN or value > INT_MAX) else end
    if kind == BOOL:
        is_true = text[at] == _T
        rows.numbers[slot, row], rows.known[slot, row] = is_true, True
        return true_end(text, at) if is_true else false_end(text, at)
    if kind == JSON:
        end = value_end(text, at)
        rows.text_at[slot, row], rows.text_size[slot, row] = at, end - at
        return end if text[at] == OPEN_OBJECT else DOUBT
    rows.list_known[slot, row] = True
    return list_end(text, at, kind, rows)
