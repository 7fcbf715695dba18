"""What a checkpoint may be made of: kinds of objects with their attributes, and records of arrays with their fields."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import CheckpointKind

Record: TypeAlias = "np.dtype[np.void]"


class Schema:
    """Everything that a checkpoint may be made of besides numbers, texts, containers and arrays of integers.

    Attributes:
        kinds: of objects, by name.
        records: dtypes of structured arrays, by name.
        dtypes: those of all arrays, by name.
    """

    def __init__(self, kinds: Mapping[str, CheckpointKind], records: Mapping[str, Record]) -> None:
        self.kinds = kinds
        self.records = records
        plain = map(np.dtype, (np.int64, np.int32, np.int8, np.bool_))
        self.dtypes: Mapping[str, np.dtype[Any]] = {**{dtype.str: dtype for dtype in plain}, **records}
        self._kind_of: dict[type, CheckpointKind] = {kind.of: kind for kind in kinds.values()}
        self._name_of = {fields_of(dtype): name for name, dtype in records.items()}

    def kind_of(self, of: type) -> CheckpointKind | None:
        """The kind of a class; None: its objects are not written."""
        return self._kind_of.get(of)

    def name_of(self, array: NDArray[Any]) -> str:
        """The name of what an array holds.

        Raises:
            TypeError: it holds something else, or has not one dimension.
        """
        name: str = self._name_of.get(fields_of(array.dtype), "") if array.dtype.names else array.dtype.str
        if name not in self.dtypes or array.ndim != 1:
            raise TypeError(f"a checkpoint holds no {array.ndim}-dimensional array of {array.dtype}")
        return name


def fields_of(record: "np.dtype[Any]") -> tuple[tuple[str, str], ...]:
    """The fields of a record, each with its type."""
    return tuple((name, record[name].str) for name in record.names or ())
