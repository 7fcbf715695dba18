"""Turns the arrays of parsed rows into Arrow columns of `EVENT_SCHEMA`."""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.lines.copied import copy_keys, copy_texts
from dispatch_audit.pipeline.trace.lines.layout import LIST_FIELDS, NUMBER_FIELDS, TEXT_FIELDS, TOO_MANY, ParsedRows
from dispatch_audit.pipeline.trace.lines.tokens import Text
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

_POSITION: Final = ARROW_TYPES["positions"].value_type
_RANGE: Final = ARROW_TYPES["ranges"].value_type


class ParsedColumns:
    """The columns of the first `count` rows of a block, whose arrays are used again for the next block.

    Attributes:
        unread_keys: for each row whether its key is not plain base64; filled by `column("key")`.
    """

    def __init__(self, text: Text, rows: ParsedRows, count: int) -> None:
        self._text, self._rows, self._count = text, rows, count
        self.unread_keys: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)

    def column(self, name: str) -> pa.Array:
        """Returns a column of `EVENT_SCHEMA`; texts are dictionary-encoded, and `snapshot` is JSON."""
        if name == "key":
            return self._keys()
        if name in NUMBER_FIELDS:
            return self._numbers(name)
        if name in LIST_FIELDS:
            return self._list(name)
        if name not in TEXT_FIELDS:
            return pa.nulls(self._count, ARROW_TYPES[name])
        slot = TEXT_FIELDS.index(name)
        at, size = self._rows.text_at[slot, : self._count], self._rows.text_size[slot, : self._count]
        if name == "snapshot":
            return _texts(self._text, at, size)
        return _decoded(self._encoded(slot, at, size))

    def _encoded(self, slot: int, at: NDArray[np.int64], size: NDArray[np.int64]) -> pa.DictionaryArray:
        """Returns the texts as they are written, dictionary-encoded."""
        different = self._rows.different[slot]
        if different == TOO_MANY:
            return _texts(self._text, at, size).dictionary_encode()
        first = self._rows.first_row[slot, :different]
        numbers = self._rows.text_number[slot, : self._count]
        words = _texts(self._text, at[first], size[first])
        return pa.DictionaryArray.from_arrays(pa.array(numbers.copy(), mask=size < 0), words)

    def _numbers(self, name: str) -> pa.Array:
        slot, kind = NUMBER_FIELDS.index(name), ARROW_TYPES[name]
        known = self._rows.known[slot, : self._count]
        if not known.any():
            return pa.nulls(self._count, kind)
        values = self._rows.numbers[slot, : self._count].astype(kind.to_pandas_dtype())
        return pa.array(values, mask=None if known.all() else ~known)

    def _keys(self) -> pa.Array:
        slot = TEXT_FIELDS.index("key_b64")
        at, size = self._rows.text_at[slot, : self._count], self._rows.text_size[slot, : self._count]
        room = int(size.clip(0).sum())
        if room == 0 and (size < 0).all():
            return pa.nulls(self._count, pa.binary())
        ends, copied = np.empty(self._count + 1, dtype=np.int32), np.empty(room, dtype=np.uint8)
        copy_keys(self._text, at, size, ends, copied, self.unread_keys)
        return _from_buffers(pa.binary(), ends, copied, size >= 0)

    def _list(self, name: str) -> pa.Array:
        slot, rows = LIST_FIELDS.index(name), self._rows
        known = rows.list_known[slot, : self._count]
        if not known.any():
            return pa.nulls(self._count, ARROW_TYPES[name])
        ends = rows.list_end[slot, : self._count]
        used = int(ends[-1])
        return _listed(ARROW_TYPES[name], ends, known, self._elements(name, used))

    def _elements(self, name: str, used: int) -> pa.Array:
        rows = self._rows
        if name == "batch_keys":
            return _decoded(_texts(self._text, rows.item_at[:used], rows.item_size[:used]))
        if name == "ack_set":
            return pa.array(rows.words[:used].copy())
        if name == "ranges":
            numbers = [pa.array(values.astype(np.int32)) for values in rows.ranges[:, :used]]
            return pa.StructArray.from_arrays(numbers, fields=list(_RANGE))
        known, ends = rows.set_known[:used], rows.set_end[:used]
        sets = _POSITION.field("ack_set").type
        if known.any():
            found = _listed(sets, ends, known, pa.array(rows.set_words[: int(ends[-1])].copy()))
        else:
            found = pa.nulls(used, sets)
        numbers = [pa.array(values.copy()) for values in rows.positions[:, :used]]
        return pa.StructArray.from_arrays([*numbers, found], fields=list(_POSITION))


def _texts(text: Text, at: NDArray[np.int64], size: NDArray[np.int64]) -> pa.Array:
    """Returns the texts as they are written, with their escapes."""
    known = size >= 0
    if not known.any():
        return pa.nulls(at.size, pa.string())
    ends = np.zeros(at.size + 1, dtype=np.int32)
    np.cumsum(size.clip(0), out=ends[1:])
    copied = np.empty(int(ends[-1]), dtype=np.uint8)
    copy_texts(text, at, ends, copied)
    return _from_buffers(pa.string(), ends, copied, known)


def _from_buffers(kind: pa.DataType, ends: NDArray[np.int32], copied: Text, known: NDArray[np.bool_]) -> pa.Array:
    present = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, known.size, [present, pa.py_buffer(ends), pa.py_buffer(copied)])


def _listed(kind: pa.DataType, ends: NDArray[np.int64], known: NDArray[np.bool_], elements: pa.Array) -> pa.Array:
    offsets = np.zeros(ends.size + 1, dtype=np.int32)
    offsets[1:] = ends
    mask = None if known.all() else pa.array(~known)
    return pa.ListArray.from_arrays(pa.array(offsets), elements.cast(kind.value_type), type=kind, mask=mask)


def _decoded(texts: pa.Array) -> pa.Array:
    """Returns the texts with their escapes resolved; the same array if none has any."""
    words = texts.dictionary if pa.types.is_dictionary(texts.type) else texts
    if not pc.any(pc.match_substring(words, "\\")).as_py():
        return texts
    found = pa.array(_unescaped(words.to_pylist()), pa.string())
    # Two spellings of a word are one entry of the dictionary.
    return found.take(texts.indices).dictionary_encode() if words is not texts else found


def _unescaped(texts: Sequence[str | None]) -> list[str | None]:
    # A surrogate without its other half is no character.
    return [None if text is None else json.loads(f'"{text}"').encode(errors="replace").decode() for text in texts]
