"""Numbers the different texts of each field, most often few, while its line is parsed; compiled."""

from dispatch_audit.pipeline.trace.lines.compiled import compiled
from dispatch_audit.pipeline.trace.lines.layout import DIFFERENT_MAX, NUMBERED, TABLE_SIZE, TOO_MANY, ParsedRows
from dispatch_audit.pipeline.trace.lines.tokens import Text

# How many of the last bytes of a text decide where it is looked for; names often differ at their ends.
_LAST_BYTES = 8


@compiled
def number_texts(text: Text, row: int, rows: ParsedRows) -> None:
    """Numbers the texts of a parsed row, whose bytes have just been read, in the order in which they first occur."""
    for slot in range(NUMBERED.size):
        if NUMBERED[slot] and rows.text_size[slot, row] >= 0 and rows.different[slot] != TOO_MANY:
            rows.text_number[slot, row] = _number(text, slot, row, rows)


@compiled
def _number(text: Text, slot: int, row: int, rows: ParsedRows) -> int:
    begin, size = rows.text_at[slot, row], rows.text_size[slot, row]
    place = _place(text, begin, size)
    number = int(rows.number_at[slot, place])
    while number >= 0:
        other = rows.first_row[slot, number]
        if rows.text_size[slot, other] == size and _equal(text, begin, rows.text_at[slot, other], size):
            return number
        place = (place + 1) % TABLE_SIZE
        number = int(rows.number_at[slot, place])
    number = int(rows.different[slot])
    if number == DIFFERENT_MAX:
        rows.different[slot] = TOO_MANY
        return TOO_MANY
    rows.number_at[slot, place], rows.first_row[slot, number] = number, row
    rows.different[slot] = number + 1
    return number


@compiled
def _place(text: Text, at: int, size: int) -> int:
    mixed = size
    for byte in range(at + max(size - _LAST_BYTES, 0), at + size):
        # Uncompiled, the product of a byte would be a byte.
        mixed = mixed * 31 + int(text[byte])
    return mixed % TABLE_SIZE


@compiled
def _equal(text: Text, one: int, other: int, size: int) -> bool:
    for byte in range(size):  # noqa: SIM110 - numba compiles no generators
        if text[one + byte] != text[other + byte]:
            return False
    return True
