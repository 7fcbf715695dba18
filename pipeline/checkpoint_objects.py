"""Writes objects whose classes are `checkpointed`, and all that they refer to, as bytes, and builds them again.

It is data: what the numbers in it mean is not checked. `pickle` writes it: it follows references and circles and is
written in C. Two things of it are replaced. Writing: each object that is no plain value or container passes
`_Writer.reducer_override`, which knows the kinds of `checkpointed` and the records of arrays, and refuses everything
else. Reading: bytes name functions and classes by their names, and `_Reader` finds those of this module and the
containers of `_CONTAINERS`, and no others; so reading builds what was declared, and runs nothing else.
"""

import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import KINDS, RECORDS, CheckpointKind

_PLAIN_DTYPES: Final = {dtype.str: dtype for dtype in map(np.dtype, (np.int64, np.int32, np.int8, np.bool_))}
_CONTAINERS: Final[Sequence[Any]] = (Counter, defaultdict, deque, set, frozenset, list, int, bool)
_MEANING: Final = 1
"""Raised where a field keeps its name and gets another meaning: a digest does not see that."""


def version_of(kinds: Mapping[str, CheckpointKind], records: Mapping[str, "np.dtype[np.void]"]) -> int:
    """The version of what is declared, in 63 bits."""
    declared = (
        _MEANING,
        sorted((name, kind.attributes) for name, kind in kinds.items()),
        sorted((name, record.descr) for name, record in records.items()),
    )
    return int.from_bytes(sha256(repr(declared).encode()).digest()[:8], "big") >> 1


def dumps(root: object, given: Mapping[str, object]) -> bytes:
    """Writes an object and all that it refers to, but for what is `given`: `loads` gets that anew, by the same names.

    Raises:
        TypeError: something in it is not declared, or has other attributes than its class declares.
    """
    written = BytesIO()
    _Writer(written, given).dump(root)
    return written.getvalue()


def loads(payload: bytes, given: Mapping[str, object]) -> Any:
    """Builds the object that `dumps` wrote.

    Raises:
        Exception: of any class: what is no such payload fails wherever something in it is used.
    """
    source = BytesIO(payload)
    root = _Reader(source, given).load()
    if source.tell() != len(payload):
        raise ValueError("it is longer than what was written")
    return root


class _Writer(pickle.Pickler):
    def __init__(self, target: BytesIO, given: Mapping[str, object]) -> None:
        super().__init__(target, protocol=5)
        self._given = {id(thing): name for name, thing in given.items()}
        self._kinds = {kind.of: kind for kind in KINDS.values()}
        self._records = {record: name for name, record in RECORDS.items()}

    def reducer_override(self, thing: Any) -> Any:
        """How to build a thing again, as a function with its arguments; NotImplemented: as `pickle` does.

        Raises:
            TypeError: it is not declared.
        """
        of = type(thing)
        if id(thing) in self._given:
            return _given, (self._given[id(thing)],)
        kind = self._kinds.get(of)
        if kind is not None:
            named = (kind.name, *kind.values(thing))
            # An object may refer to itself, so its attributes are set after it is there.
            return (_tuple, named) if kind.is_tuple else (_new, (kind.name,), named, None, None, _filled)
        if isinstance(thing, np.ndarray):
            return _array, (self._name_of(thing), bytearray(np.ascontiguousarray(thing).view(np.uint8)))
        if isinstance(thing, np.integer | np.bool_):
            return type(thing.item()), (thing.item(),)
        is_known = thing in _FOUND.values() if of is type or callable(thing) else of in _CONTAINERS
        if not is_known or (of is defaultdict and thing.default_factory not in (list, int)):
            raise TypeError(f"a checkpoint holds no {getattr(thing, '__qualname__', of.__qualname__)}")
        return NotImplemented

    def _name_of(self, array: NDArray[Any]) -> str:
        name = self._records.get(array.dtype) if array.dtype.names else array.dtype.str
        if array.ndim != 1 or (name not in _PLAIN_DTYPES and name not in RECORDS):
            raise TypeError(f"a checkpoint holds no {array.ndim}-dimensional array of {array.dtype}")
        return str(name)


class _Reader(pickle.Unpickler):
    def __init__(self, source: BytesIO, given: Mapping[str, object]) -> None:
        super().__init__(source)
        self._given = given

    def find_class(self, module: str, name: str) -> Any:
        """What a name stands for.

        Raises:
            pickle.UnpicklingError: for nothing that a checkpoint is made of.
        """
        found = _FOUND.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a checkpoint")
        return self._given.__getitem__ if found is _given else found


def _given(name: str) -> object:
    """Stands for what the caller gives anew; `_Reader` looks it up."""
    raise NotImplementedError(name)


def _new(name: str) -> Any:
    return object.__new__(KINDS[name].of)


def _filled(made: Any, named: Sequence[Any]) -> None:
    name_of_kind, *values = named
    kind = KINDS[name_of_kind]
    if type(made) is not kind.of:
        raise ValueError(f"{type(made).__name__} stands for {kind.name}")
    for name, value in zip(kind.attributes, values, strict=True):
        # Not `setattr`: frozen dataclasses refuse it.
        object.__setattr__(made, name, value)


def _tuple(name: str, *values: Any) -> Any:
    return KINDS[name].made(values)


def _array(name: str, content: bytearray) -> NDArray[Any]:
    array: NDArray[Any] = np.frombuffer(content, RECORDS[name] if name in RECORDS else _PLAIN_DTYPES[name])
    # The attributes of records are read by name in the whole of the replay.
    return array.view(np.recarray) if array.dtype.names else array


_FUNCTIONS: Final[Sequence[Any]] = (_given, _new, _filled, _tuple, _array)
_FOUND: Final[Mapping[tuple[str, str], Any]] = {
    (of.__module__, of.__qualname__): of for of in (*_FUNCTIONS, *_CONTAINERS)
}
