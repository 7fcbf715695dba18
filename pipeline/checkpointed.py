"""Declares, where a class of the replay stands, that its objects are part of a checkpoint.

    @checkpointed("hash_owners")
    class HashOwners:
        __slots__ = ("_log", "epochs")

What is written of an object are the fields that its class declares: those of a NamedTuple or a dataclass, the
`__slots__` of any other class. The records of arrays are declared where their fields are (`checkpointed_record`). A
kind has a name of its own, so that a class may be renamed or moved while its objects are on disk. The version of
checkpoints is a digest of what is declared (replay/checkpoint.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import numpy as np

_C = TypeVar("_C", bound=type)


class CheckpointKind:
    """A class whose objects may be written.

    Attributes:
        name: of the kind in checkpoints.
        of: the class.
        attributes: of its objects, but for cached properties: those are computed again.
        is_tuple: whether it is a NamedTuple.
    """

    __slots__ = ("attributes", "is_tuple", "name", "of")

    def __init__(self, name: str, of: type) -> None:
        """Reads the fields that a class declares."""
        self.name = name
        self.of: Any = of
        self.is_tuple = issubclass(of, tuple)
        self.attributes = _declared(of)

    def values(self, thing: Any) -> list[Any]:
        """The attributes of an object, in their order.

        Raises:
            TypeError: it has others.
        """
        if self.is_tuple:
            return list(thing)
        undeclared = getattr(thing, "__dict__", {}).keys() - set(self.attributes)
        undeclared -= {name for name in undeclared if isinstance(getattr(self.of, name, None), cached_property)}
        missing = [name for name in self.attributes if not hasattr(thing, name)]
        if undeclared or missing:
            differing = ", ".join(sorted((*undeclared, *missing)))
            raise TypeError(f"the attributes of {self.name} differ from those that its class declares: {differing}")
        return [getattr(thing, name) for name in self.attributes]

    def made(self, values: Iterable[Any]) -> Any:
        """A NamedTuple of this kind.

        Raises:
            TypeError: it has fewer fields than there are values, or more.
        """
        return self.of._make(values)


KINDS: Final[dict[str, CheckpointKind]] = {}
"""All kinds by name, of the classes that are imported."""


RECORDS: Final[dict[str, "np.dtype[np.void]"]] = {}
"""The fields of all records of arrays, by the name of their kind, of the modules that are imported."""


def checkpointed(name: str) -> Callable[[_C], _C]:
    """Declares a class as a kind of a checkpoint.

    Args:
        name: of the kind.

    Raises:
        ValueError: another class has that name.
    """

    def declare(of: _C) -> _C:
        if name in KINDS:
            raise ValueError(f"{KINDS[name].of.__qualname__} is the kind {name} already")
        KINDS[name] = CheckpointKind(name, of)
        return of

    return declare


def checkpointed_record(name: str, fields: "np.dtype[np.void]") -> "np.dtype[np.void]":
    """Declares the fields of records as a kind of a checkpoint, and returns them.

    Raises:
        ValueError: other records have that name.
    """
    if name in RECORDS:
        raise ValueError(f"there are records {name} already")
    RECORDS[name] = fields
    return fields


def _declared(of: Any) -> tuple[str, ...]:
    if issubclass(of, tuple):
        return tuple(of._fields)
    if is_dataclass(of):
        return tuple(field.name for field in fields(of))
    slots = (vars(each).get("__slots__", ()) for each in reversed(of.__mro__))
    # A class with cached properties has a `__dict__` for them.
    return tuple(name for names in slots for name in names if name != "__dict__")
