"""Types and checks batches of recorded columns, whatever reader they come from."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.good_rows import CHECKED, Mask, good_rows
from dispatch_audit.pipeline.trace.checks.keys import key_of
from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values, fault_of
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead, rows_read
from dispatch_audit.pipeline.trace.checks.rows_with_texts import (
    NO_TEXTS,
    OF_ROW,
    RowWithText,
    WithTexts,
    batch_with_texts,
    good_with_texts,
)
from dispatch_audit.pipeline.trace.checks.snapshots import checked_structs
from dispatch_audit.pipeline.trace.checks.wrong_types import not_of_type
from dispatch_audit.pipeline.trace.columnar.conform import OtherColumnError, conform
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA

Texts = Callable[[NDArray[np.int64]], list[str]]
"""Returns rows of a batch, given by their indices, as JSON."""

Indices = NDArray[np.int64]


class ColumnReader:
    """Types and checks batches of the columns of one log.

    Args:
        log: its name, for messages.
        columns: of `EVENT_SCHEMA`, to return; `snapshot` is JSON.
        rows: most rows of a batch.
        asked: good rows whose texts are wanted.

    Attributes:
        columns: those to return.
        rows: most rows of a batch.
        needed: the recorded columns that it needs, where they are there.
    """

    def __init__(self, log: str, columns: Sequence[str], rows: int, asked: AskedRows | None = None) -> None:
        self.columns, self.rows = list(columns), rows
        self.needed = tuple(dict.fromkeys((*columns, *CHECKED, *OF_ROW, "key_b64")))
        self._log, self._asked = log, asked

    def read(self, part: pa.RecordBatch, lines: pa.Array, texts: Texts) -> Iterator[RowsRead]:
        """Yields the rows of a batch.

        Args:
            part: recorded columns; absent ones are null.
            lines: the numbers of the rows; null where they have none.
            texts: of the rows.

        Raises:
            TraceError: a column has a value of a type that cannot be converted to the type of the format.
        """
        found, faults = self._typed(part)
        structs = found["snapshot"]
        found["snapshot"], bad = checked_structs(structs)
        good = good_rows(pa.record_batch([found[name] for name in CHECKED], names=list(CHECKED))) & ~bad
        good[list(faults)] = False
        refused = self._one_by_one({**found, "snapshot": structs}, np.flatnonzero(~good), faults)
        good[:] = True
        good[list(refused)] = False
        batch = pa.record_batch([found[name] for name in self.columns], names=self.columns)
        with_texts = WithTexts(self._refused(refused, lines, texts), self._among(found, good, lines, texts))
        batches = [batch if not refused else batch.filter(pa.array(good))]
        yield from rows_read(batches, with_texts, part.num_rows, self.columns, self.rows)

    def unchecked(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the columns of all rows, good or not; raises as `read` does."""
        names = part.schema.names
        found = [
            self._conformed(part.column(name), name) if name in names else pa.nulls(part.num_rows, ARROW_TYPES[name])
            for name in self.columns
        ]
        return pa.record_batch(found, names=self.columns)

    def _typed(self, part: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[int, Fault]]:
        """Returns columns of the format, and the faults of rows that lost a value by the conversion."""
        found: dict[str, pa.Array] = {}
        faults: dict[int, Fault] = {}
        for name in (name for name in EVENT_SCHEMA.names if name in self.needed):
            if name not in part.schema.names:
                found[name] = pa.nulls(part.num_rows, ARROW_TYPES[name])
                continue
            given = part.column(name)
            found[name] = self._conformed(given, name)
            if pa.types.is_integer(ARROW_TYPES[name]) and found[name].null_count > given.null_count:
                lost = pc.and_(pc.is_valid(given), pc.is_null(found[name])).to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(lost).tolist():
                    detail = not_of_type(name, str(given[row]), ARROW_TYPES[name])
                    faults.setdefault(row, Fault("wrong_type", detail))
        if "key_b64" in part.schema.names:
            found["key"] = self._keys(found["key"], part.column("key_b64"), faults)
        return found, faults

    def _conformed(self, column: pa.Array, name: str) -> pa.Array:
        try:
            return conform(column, ARROW_TYPES[name])
        except OtherColumnError:
            raise TraceError(
                f"{self._log}: column {name} has type {_named(column.type)}, but format 1 has "
                f"{_named(ARROW_TYPES[name])}",
                "write the column with that type",
            ) from None

    def _keys(self, keys: pa.Array, encoded: pa.Array, faults: dict[int, Fault]) -> pa.Array:
        """Returns the keys, those in base64 decoded; a key in bytes counts before one in base64."""
        texts = self._conformed(encoded, "key_b64")
        if texts.null_count == len(texts):
            return keys
        decoded = [None if text is None else key_of(text) for text in texts.to_pylist()]
        for row, (text, key) in enumerate(zip(texts.to_pylist(), decoded, strict=True)):
            if text is not None and key is None:
                faults.setdefault(row, Fault("bad_key", f"key_b64 = {text}"))
        plain = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
        return pc.coalesce(plain, pa.array(decoded, pa.binary()))

    def _one_by_one(
        self, found: Mapping[str, pa.Array], doubtful: Indices, faults: Mapping[int, Fault]
    ) -> dict[int, tuple[Fault, Values]]:
        """Returns those of the doubtful rows that are refused, with their values."""
        if not doubtful.size:
            return {}
        table = pa.record_batch(list(found.values()), names=list(found)).take(pa.array(doubtful))
        every = zip(doubtful.tolist(), table.to_pylist(maps_as_pydicts="strict"), strict=True)
        checked = ((row, faults.get(row) or fault_of(values), values) for row, values in every)
        return {row: (fault, values) for row, fault, values in checked if fault is not None}

    def _refused(self, refused: Mapping[int, tuple[Fault, Values]], lines: pa.Array, texts: Texts) -> pa.RecordBatch:
        at = np.array(list(refused), dtype=np.int64)
        of_rows = zip(lines.take(pa.array(at)).to_pylist(), texts(at) if refused else (), strict=True)
        rows = zip(refused.values(), of_rows, strict=True)
        return batch_with_texts([RowWithText(fault, values, line, raw) for (fault, values), (line, raw) in rows])

    def _among(self, found: Mapping[str, pa.Array], good: Mask, lines: pa.Array, texts: Texts) -> pa.Table:
        if self._asked is None:
            return NO_TEXTS.asked
        own = pa.record_batch([found[name] for name in OF_ROW], names=list(OF_ROW))
        at = np.flatnonzero(good & self._asked.among(own))
        if not at.size:
            return NO_TEXTS.asked
        return pa.Table.from_batches([good_with_texts(own.take(pa.array(at)), lines.take(pa.array(at)), texts(at))])


def json_texts(rows: pa.RecordBatch) -> list[str]:
    """Returns rows as JSON, with all their columns that are not null."""
    names = rows.schema.names
    columns = [_values(name, column) for name, column in zip(names, rows.columns, strict=True)]
    filled = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return [json.dumps(_without_nulls(row), default=_shown, separators=(",", ":")) for row in filled]


def _values(name: str, column: pa.Array) -> list[Any]:
    """Returns the values of a column, valid UTF-8 or not."""
    try:
        column.validate(full=True)
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except pa.ArrowInvalid:
        values = conform(column, ARROW_TYPES.get(name, pa.string())).to_pylist(maps_as_pydicts="lossy")
    return values


def _named(kind: pa.DataType) -> str:
    """Returns the name of a type in Spark, which the documentation uses; of others that of Arrow."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return from_arrow_type(kind).simpleString()
    except PySparkTypeError:
        return str(kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _shown(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
