"""The fields of a line and where the compiled parser puts their values.

Every kind of value has arrays of its own, and a field is a row of them (its slot). Texts stay where they are: the
arrays have their first bytes and sizes.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, JSON_SCHEMA

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
TEXT, NUMBER, BOOL, JSON, TEXTS, WORDS, POSITIONS, RANGES = range(8)
"""The kinds of fields; JSON is a value that stays text."""
ALONE: Final = -1
"""The kind of a field that only rare rows have: their lines are parsed one by one."""

_NESTED: Final = {
    "snapshot": JSON,
    "batch_keys": TEXTS,
    "dropped_events": ALONE,
    "settings": ALONE,
    "sources": ALONE,
    "ack_set": WORDS,
    "positions": POSITIONS,
    "ranges": RANGES,
}


def _kind(name: str) -> int:
    if name in _NESTED:
        return _NESTED[name]
    if ARROW_TYPES[name] == pa.string():
        return TEXT
    return BOOL if ARROW_TYPES[name] == pa.bool_() else NUMBER


_KIND: Final = {name: _kind(name) for name in JSON_SCHEMA.names}
FIELDS: Final = tuple(_KIND)
TEXT_FIELDS: Final = tuple(name for name, kind in _KIND.items() if kind in (TEXT, JSON))
NUMBER_FIELDS: Final = tuple(name for name, kind in _KIND.items() if kind in (NUMBER, BOOL))
LIST_FIELDS: Final = tuple(name for name, kind in _KIND.items() if kind >= TEXTS)
_SLOT: Final = {name: at for group in (TEXT_FIELDS, NUMBER_FIELDS, LIST_FIELDS) for at, name in enumerate(group)}

# Nearly every key and every snapshot is another one.
NUMBERED: Final = np.array([_KIND[name] == TEXT and name != "key_b64" for name in TEXT_FIELDS])
"""Of each slot of texts, whether the different texts are numbered."""
DIFFERENT_MAX: Final = 256
"""A block whose field has more different texts has no numbers for them."""
TOO_MANY: Final = -1
TABLE_SIZE: Final = 4 * DIFFERENT_MAX

KINDS: Final = np.array([_KIND[name] for name in FIELDS], dtype=np.int8)
SLOTS: Final = np.array([_SLOT.get(name, -1) for name in FIELDS], dtype=np.int64)
IS_INT: Final = np.array([ARROW_TYPES[name] == pa.int32() for name in FIELDS])


def _letters(names: Sequence[str]) -> NDArray[np.uint8]:
    return np.array([[*name.encode().ljust(32, b"\0")] for name in names], dtype=np.uint8)


def _sizes(names: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(name) for name in names], dtype=np.int64)


NAMES: Final = _letters(FIELDS)
SIZES: Final = _sizes(FIELDS)
_ELEMENT_FIELDS: Final = ("ledger_id", "entry_id", "ack_set", "start", "end")
ELEMENT_NAMES: Final = _letters(_ELEMENT_FIELDS)
ELEMENT_SIZES: Final = _sizes(_ELEMENT_FIELDS)
NAME_TABLE_SIZE: Final = 256


def _places(first: int, last: int, size: int) -> list[int]:
    return [(ord(n[0]) * first + ord(n[-1]) * last + len(n) * size) % NAME_TABLE_SIZE for n in FIELDS]


def _factors() -> tuple[int, ...]:
    """Returns factors that give every field a place of its own by its first and last letter and its size."""
    candidates = product(range(1, 64), repeat=3)
    return next(factors for factors in candidates if len(set(_places(*factors))) == len(FIELDS))


FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR = _factors()
FIELD_AT: Final = np.full(NAME_TABLE_SIZE, -1, dtype=np.int64)
FIELD_AT[_places(FIRST_FACTOR, LAST_FACTOR, SIZE_FACTOR)] = np.arange(len(FIELDS))


class ParsedRows(NamedTuple):
    """The values of the rows of a block, to be filled by the compiled parser.

    Attributes:
        line: for each row the number of its line in the block.
        text_at: first byte of each text, by slot and row.
        text_size: its bytes; -1: null.
        text_number: number of each text among the different texts of its slot, which `NUMBERED` chooses.
        different: number of different texts of each slot; TOO_MANY.
        first_row: the row of each different text, by slot and number.
        number_at: a hash table of the numbers of each slot; -1: free.
        numbers: by slot and row; booleans as 0 and 1.
        known: whether the number is not null.
        list_known: whether the list is not null, by slot and row.
        list_end: number of elements of the lists up to the row.
        item_at: first byte of each text in a list.
        item_size: its bytes; -1: null.
        words: of ack sets of rows.
        positions: ledgers and entries.
        set_known: whether the position has an ack set.
        set_end: number of words of the ack sets up to the position.
        set_words: of ack sets of positions.
        ranges: beginnings and ends.
        used: number of items, words, positions, words of positions, and ranges.
        used_before: the same before the last line.
    """

    line: NDArray[np.int64]
    text_at: NDArray[np.int64]
    text_size: NDArray[np.int64]
    text_number: NDArray[np.int32]
    different: NDArray[np.int64]
    first_row: NDArray[np.int64]
    number_at: NDArray[np.int32]
    numbers: NDArray[np.int64]
    known: NDArray[np.bool_]
    list_known: NDArray[np.bool_]
    list_end: NDArray[np.int64]
    item_at: NDArray[np.int64]
    item_size: NDArray[np.int64]
    words: NDArray[np.int64]
    positions: NDArray[np.int64]
    set_known: NDArray[np.bool_]
    set_end: NDArray[np.int64]
    set_words: NDArray[np.int64]
    ranges: NDArray[np.int64]
    used: NDArray[np.int64]
    used_before: NDArray[np.int64]


class Room:
    """Room for the rows of one block after the other; fresh memory would cost more than parsing into it."""

    def __init__(self) -> None:
        self._lines, self._bytes = 0, 0
        self._rows = _rows_for(0, 0)

    def rows(self, lines: int, size: int) -> ParsedRows:
        """Returns empty rows for a block of so many lines and bytes; those of the block before are gone."""
        if lines > self._lines or size > self._bytes:
            self._lines, self._bytes = max(lines, self._lines), max(size, self._bytes)
            self._rows = _rows_for(self._lines, self._bytes)
        rows = self._rows
        rows.text_size[:, :lines] = -1
        rows.known[:, :lines] = False
        rows.list_known[:, :lines] = False
        rows.number_at[:] = -1
        rows.different[:] = 0
        rows.used[:] = 0
        rows.used_before[:] = 0
        return rows


def _rows_for(lines: int, size: int) -> ParsedRows:
    # The shortest elements: `1,`, `"",` and objects of two fields. Memory that is not filled is not taken.
    short, texts, objects = size // 2 + 1, size // 3 + 1, size // 18 + 1
    return ParsedRows(
        line=np.empty(lines, dtype=np.int64),
        text_at=np.empty((len(TEXT_FIELDS), lines), dtype=np.int64),
        text_size=np.empty((len(TEXT_FIELDS), lines), dtype=np.int64),
        text_number=np.empty((len(TEXT_FIELDS), lines), dtype=np.int32),
        different=np.empty(len(TEXT_FIELDS), dtype=np.int64),
        first_row=np.empty((len(TEXT_FIELDS), DIFFERENT_MAX), dtype=np.int64),
        number_at=np.empty((len(TEXT_FIELDS), TABLE_SIZE), dtype=np.int32),
        numbers=np.empty((len(NUMBER_FIELDS), lines), dtype=np.int64),
        known=np.empty((len(NUMBER_FIELDS), lines), dtype=np.bool_),
        list_known=np.empty((len(LIST_FIELDS), lines), dtype=np.bool_),
        list_end=np.empty((len(LIST_FIELDS), lines), dtype=np.int64),
        item_at=np.empty(texts, dtype=np.int64),
        item_size=np.empty(texts, dtype=np.int64),
        words=np.empty(short, dtype=np.int64),
        positions=np.empty((2, objects), dtype=np.int64),
        set_known=np.empty(objects, dtype=np.bool_),
        set_end=np.empty(objects, dtype=np.int64),
        set_words=np.empty(short, dtype=np.int64),
        ranges=np.empty((2, objects), dtype=np.int64),
        used=np.empty(5, dtype=np.int64),
        used_before=np.empty(5, dtype=np.int64),
    )
