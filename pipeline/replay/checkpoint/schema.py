"""What a checkpoint may be made of: kinds of objects with their attributes, and records of arrays with their fields.

A kind has a name of its own, so that a class may be renamed or moved while its objects are on disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Record: TypeAlias = "np.dtype[np.void]"


class Kind:
    """A class whose objects may be written.

    Attributes:
        name: of the kind in checkpoints.
        of: the class.
        attributes: of its objects, but for cached properties: those are computed again.
        is_tuple: whether it is a NamedTuple.
    """

    def __init__(self, name: str, of: type, attributes: str = "") -> None:
        """Takes the attributes in one text; NamedTuples and dataclasses state theirs themselves."""
        self.name = name
        self.of: Any = of
        self.is_tuple = issubclass(of, tuple)
        if is_dataclass(of):
            self.attributes = tuple(field.name for field in fields(of))
        else:
            self.attributes = tuple(attributes.split()) or tuple(getattr(of, "_fields", ()))

    def values(self, thing: Any) -> list[Any]:
        """The attributes of an object, in their order.

        Raises:
            TypeError: it has others.
        """
        if self.is_tuple:
            return list(thing)
        found = vars(thing)
        computed = {name for name in found if isinstance(getattr(self.of, name, None), cached_property)}
        differing = (found.keys() - computed) ^ set(self.attributes)
        if differing:
            raise TypeError(f"the attributes of {self.name} differ from those of its kind: {', '.join(differing)}")
        return [found[name] for name in self.attributes]

    def made(self, values: Iterable[Any]) -> Any:
        """A NamedTuple of this kind.

        Raises:
            TypeError: it has fewer fields than there are values, or more.
        """
        return self.of._make(values)


class Schema:
    """Everything that a checkpoint may be made of besides numbers, texts, containers and arrays of integers.

    Attributes:
        kinds: of objects, by name.
        records: dtypes of structured arrays, by name.
        dtypes: those of all arrays, by name.
    """

    def __init__(self, kinds: Iterable[Kind], records: Mapping[str, Record]) -> None:
        """Takes the kinds, and the records by their names."""
        self.kinds = {kind.name: kind for kind in kinds}
        self.records = records
        plain = map(np.dtype, (np.int64, np.int32, np.int8, np.bool_))
        self.dtypes: Mapping[str, np.dtype[Any]] = {**{dtype.str: dtype for dtype in plain}, **records}
        self._kind_of: dict[type, Kind] = {kind.of: kind for kind in self.kinds.values()}
        self._name_of = {fields_of(dtype): name for name, dtype in records.items()}

    def kind_of(self, of: type) -> Kind | None:
        """The kind of a class; None: its objects are not written."""
        return self._kind_of.get(of)

    def name_of(self, array: NDArray[Any]) -> str:
        """The name of what an array holds.

        Raises:
            TypeError: it holds something else, or has not one dimension.
        """
        name: str = self._name_of.get(fields_of(array.dtype), "") if array.dtype.names else array.dtype.str
        if name not in self.dtypes or array.ndim != 1:
            raise TypeError(f"an array of {array.dtype}, {array.ndim}-dimensional, is nothing that a state is made of")
        return name


def fields_of(record: "np.dtype[Any]") -> tuple[tuple[str, str], ...]:
    """The fields of a record, each with its type."""
    return tuple((name, record[name].str) for name in record.names or ())
