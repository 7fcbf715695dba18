"""Objects as one JSON document and a list of arrays, and back; only what a schema names is written, or built again.

    document  {"kinds":   {"trace_point": ["seq", "ts_us"], ...},         the attributes of the objects in it
               "records": {"entry": [["ledger", "<i8"], ...], ...},       the fields of the records in its arrays
               "arrays":  [["entry", 1024], ["<i8", 7], ...],             what each array holds, and how many
               "root":    VALUE}
    VALUE     null, true, 12, 0.5 and "text" stand for themselves; everything else is an object with one member:
              {KIND: [VALUE, ...]}      an object of that kind, its attributes in the order of `kinds`
              {"list": ITEMS}           also tuple, set, frozenset
              {"dict": [ITEMS, ITEMS]}  keys and values; also counter, dict_of_lists, dict_of_ints
              {"deque": [ITEMS, 16]}    with the number of items that it keeps, or null
              {"array": 3}              the array of that number
              {"same": 5}               a reference back to value 5 of those above, counted from 0 as written
              {"given": "config"}       what the caller gives anew
    ITEMS     [VALUE, ...], or where many are alike {"ints": 3}, the array of that number, or
              {"rows": KIND or "tuple", "columns": [ITEMS, ...]}

A document names no module, and each of its arrays is read once.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import CheckpointKind
from dispatch_audit.pipeline.replay.checkpoint.schema import Schema, fields_of

_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_DICTS: Final[Mapping[str, tuple[type, type | None]]] = {
    "dict": (dict, None),
    "counter": (Counter, None),
    "dict_of_lists": (defaultdict, list),
    "dict_of_ints": (defaultdict, int),
}
_TAGS_OF_DICTS: Final = {of: tag for tag, of in _DICTS.items()}
# From so many on, values that are alike are written as columns: one by one each takes its time.
_ALIKE_MIN: Final = 16


class Encoded(NamedTuple):
    """Objects as a document that `json` can write, and its arrays in the order of their numbers."""

    document: dict[str, Any]
    arrays: list[NDArray[Any]]


def encode(root: object, schema: Schema, given: Mapping[str, object]) -> Encoded:
    """Writes an object and everything that it refers to; arrays are not copied.

    Args:
        root: the object.
        schema: what it may be made of.
        given: what is not written, by the names under which `decode` is given it anew.

    Raises:
        TypeError: the schema does not name something in it.
    """
    encoder = _Encoder(schema, given)
    value = encoder.value(root)
    used = {name for name, _ in encoder.described}
    document = {
        "kinds": encoder.kinds,
        # Classes register their records when they are imported, which happens in any order.
        "records": {name: fields_of(schema.records[name]) for name in sorted(used & schema.records.keys())},
        "arrays": encoder.described,
        "root": value,
    }
    return Encoded(document, encoder.arrays)


class _Encoder:
    """Writes values; those that may change are numbered in the order of writing, for references."""

    def __init__(self, schema: Schema, given: Mapping[str, object]) -> None:
        self.kinds: dict[str, Sequence[str]] = {}
        self.arrays: list[NDArray[Any]] = []
        self.described: list[tuple[str, int]] = []
        self._schema = schema
        self._given = {id(thing): name for name, thing in given.items()}
        self._numbers: dict[int, int] = {}

    def value(self, thing: Any) -> Any:
        of = type(thing)
        if of in _PLAIN:
            return thing
        if isinstance(thing, np.integer | np.bool_):
            return thing.item()
        if id(thing) in self._given:
            return {"given": self._given[id(thing)]}
        kind = self._schema.kind_of(of)
        # A value that cannot change is written again wherever it is met.
        if not (of is tuple or of is frozenset or (kind is not None and kind.is_tuple)):
            if id(thing) in self._numbers:
                return {"same": self._numbers[id(thing)]}
            self._numbers[id(thing)] = len(self._numbers)
        return self._content(thing, of) if kind is None else self._object(thing, kind)

    def _object(self, thing: Any, kind: CheckpointKind) -> dict[str, Any]:
        self.kinds[kind.name] = kind.attributes
        return {kind.name: [self.value(value) for value in kind.values(thing)]}

    def _content(self, thing: Any, of: type) -> dict[str, Any]:
        if of in (list, tuple):
            return {of.__name__: self._items(thing)}
        if of in (set, frozenset):
            # The order within a set depends on how it was filled.
            return {of.__name__: self._items(sorted(thing))}
        if of is deque:
            return {"deque": [self._items(tuple(thing)), thing.maxlen]}
        if isinstance(thing, np.ndarray):
            return {"array": self._array(thing)}
        tag = _TAGS_OF_DICTS.get((of, getattr(thing, "default_factory", None)))
        if tag is None:
            raise TypeError(f"a checkpoint holds no {of.__qualname__}")
        return {tag: [self._items(tuple(thing)), self._items(tuple(thing.values()))]}

    def _items(self, values: Sequence[Any]) -> Any:
        types = set(map(type, values))
        if len(values) >= _ALIKE_MIN and len(types) == 1:
            (of,) = types
            kind = self._schema.kind_of(of)
            if of is int and min(values) >= -(2**63) and max(values) < 2**63:
                return {"ints": self._array(np.array(values, dtype=np.int64))}
            if kind is not None and kind.is_tuple:
                self.kinds[kind.name] = kind.attributes
                return self._rows(kind.name, values)
            if of is tuple and values[0] and len(set(map(len, values))) == 1:
                return self._rows("tuple", values)
        return list(values) if types <= _PLAIN else [self.value(value) for value in values]

    def _rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        # Not by `zip`, which would hold an iterator for each row.
        columns = [list(map(itemgetter(number), rows)) for number in range(len(rows[0]))]
        return {"rows": name, "columns": list(map(self._items, columns))}

    def _array(self, array: NDArray[Any]) -> int:
        self.described.append((self._schema.name_of(array), array.size))
        self.arrays.append(np.ascontiguousarray(array))
        return len(self.arrays) - 1


def dtypes_of(document: Mapping[str, Any], schema: Schema) -> list[tuple["np.dtype[Any]", int]]:
    """What each array of a document holds, and how many of them.

    Raises:
        ValueError: a record has other fields than the schema says.
        Exception: as `decode`.
    """
    for name, fields in document["records"].items():
        if tuple(map(tuple, fields)) != fields_of(schema.records[name]):
            raise ValueError(f"the record {name} has other fields")
    described = [(schema.dtypes[name], size) for name, size in document["arrays"]]
    if not all(type(size) is int and size >= 0 for _, size in described):
        raise ValueError("the size of an array is none")
    return described


def decode(encoded: Encoded, schema: Schema, given: Mapping[str, object]) -> Any:
    """Builds the object that `encode` wrote, with copies of the arrays.

    Args:
        encoded: the document, and arrays as `dtypes_of` describes them.
        schema: what it may be made of.
        given: by the names under which `encode` left them out.

    Raises:
        ValueError: a kind has other attributes than the schema says.
        Exception: of any class: what is no such document fails wherever something in it is used.
    """
    document, arrays = encoded
    for name, attributes in document["kinds"].items():
        if tuple(attributes) != schema.kinds[name].attributes:
            raise ValueError(f"the kind {name} has other attributes")
    decoder = _Decoder(arrays, schema, given)
    root = decoder.value(document["root"])
    if decoder.arrays:
        raise ValueError(f"{len(decoder.arrays)} arrays belong to nothing")
    return root


class _Decoder:
    """Builds values; those that may change are numbered as in writing, before they are filled: they may refer back."""

    def __init__(self, arrays: Sequence[NDArray[Any]], schema: Schema, given: Mapping[str, object]) -> None:
        self.arrays = dict(enumerate(arrays))
        self._schema = schema
        self._given = given
        self._begun: list[Any] = []
        self._readers: Mapping[str, Callable[[Any], Any]] = {
            "tuple": lambda content: tuple(self._items(content)),
            "frozenset": lambda content: frozenset(self._items(content)),
            "list": lambda content: self._filled([], list.extend, content),
            "set": lambda content: self._filled(set(), set.update, content),
            "deque": lambda content: self._filled(deque(maxlen=content[1]), deque.extend, content[0]),
            "array": lambda content: self._begins(self._array(content)),
            "same": self._same,
            "given": lambda content: self._given[content],
        }

    def value(self, encoded: Any) -> Any:
        if type(encoded) in _PLAIN:
            return encoded
        ((tag, content),) = encoded.items()
        if tag in self._schema.kinds:
            return self._object(self._schema.kinds[tag], content)
        return self._dict(tag, content) if tag in _DICTS else self._readers[tag](content)

    def _object(self, kind: CheckpointKind, content: Sequence[Any]) -> Any:
        if len(content) != len(kind.attributes):
            raise ValueError(f"{kind.name} has {len(content)} attributes")
        if kind.is_tuple:
            return kind.made([self.value(value) for value in content])
        made = self._begins(object.__new__(kind.of))
        for name, value in zip(kind.attributes, [self.value(value) for value in content], strict=True):
            # Not `setattr`: frozen dataclasses refuse it.
            object.__setattr__(made, name, value)
        return made

    def _dict(self, tag: str, content: Any) -> dict[Any, Any]:
        of, factory = _DICTS[tag]
        made: dict[Any, Any] = self._begins(of() if factory is None else of(factory))
        keys, values = (self._items(items) for items in content)
        # Not `update`: a Counter would add up.
        for key, value in zip(keys, values, strict=True):
            made[key] = value
        return made

    def _begins(self, made: Any) -> Any:
        self._begun.append(made)
        return made

    def _filled(self, made: Any, fill: Callable[[Any, Any], None], content: Any) -> Any:
        fill(self._begins(made), self._items(content))
        return made

    def _same(self, number: Any) -> Any:
        if type(number) is not int or number < 0:
            raise ValueError("a reference is none")
        return self._begun[number]

    def _items(self, content: Any) -> Sequence[Any]:
        if type(content) is list:
            return content if _PLAIN.issuperset(map(type, content)) else [self.value(value) for value in content]
        if content.keys() == {"ints"}:
            return list(self._array(content["ints"]).tolist())
        rows = list(zip(*(self._items(column) for column in content["columns"]), strict=True))
        return rows if content["rows"] == "tuple" else list(map(self._schema.kinds[content["rows"]].made, rows))

    def _array(self, number: Any) -> NDArray[Any]:
        content = self.arrays.pop(number)
        # As bytes: numpy copies records field by field.
        array: NDArray[Any] = content.view(np.uint8).copy().view(content.dtype)
        # The attributes of records are read by name in the whole of the replay.
        return array.view(np.recarray) if array.dtype.names else array
