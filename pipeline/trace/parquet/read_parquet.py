"""Reads the rows of Parquet files: good rows as Arrow batches, refused rows with their reasons."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.checks.good_rows import CHECKED, good_rows
from dispatch_audit.pipeline.trace.checks.keys import key_of
from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values, fault_of
from dispatch_audit.pipeline.trace.checks.refused import Refused
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead, batch_of_values, rows_read
from dispatch_audit.pipeline.trace.checks.snapshots import checked_structs
from dispatch_audit.pipeline.trace.parquet.conform import OtherColumnError, conform
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA
from dispatch_audit.pipeline.trace.seq_range import SeqRange

_TEXTS: Final = (pa.string(), pa.binary())
_LINE: Final = "line"


class ParquetRows:
    """The rows of an open Parquet file.

    Args:
        path: the file.
        log: the log that it belongs to, for messages.
        numbered: whether rows have numbers; those of a Delta table have none.
    """

    def __init__(self, path: str, log: str, *, numbered: bool) -> None:
        self._path, self._log, self._numbered = path, log, numbered
        metadata = pq.read_metadata(path)
        self._schema = metadata.schema.to_arrow_schema()
        twice = [name for name in ARROW_TYPES if self._schema.names.count(name) > 1]
        if twice:
            raise TraceError(f"cannot read {path}: column {twice[0]} is there twice", "write each column once")
        encoded = [f.name for f in self._schema if f.type in _TEXTS and ARROW_TYPES.get(f.name) in _TEXTS]
        self._file = pq.ParquetFile(path, metadata=metadata, read_dictionary=encoded)
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._first_line = np.cumsum([1, *sizes])

    def groups(self, seqs: SeqRange) -> list[int]:
        """Returns the numbers of the row groups that may have rows in a range of seq."""
        return [number for number in range(self._file.num_row_groups) if self._may_meet(number, seqs)]

    def _may_meet(self, number: int, seqs: SeqRange) -> bool:
        group = self._file.metadata.row_group(number)
        chunks = (group.column(at) for at in range(group.num_columns))
        found = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == "seq"), None)
        if found is None or not found.has_min_max or not isinstance(found.min, int):
            return True
        return seqs.meets(found.min, found.max)

    def read(self, groups: Sequence[int], seqs: SeqRange, columns: Sequence[str], rows: int) -> Iterator[RowsRead]:
        """Yields the rows of some row groups in a range of seq, in batches of at most `rows`.

        Raises:
            TraceError: a column has a value of a type that cannot be converted to the type of the format.
            pa.ArrowException: the file is damaged.
        """
        names = [n for n in dict.fromkeys((*columns, *CHECKED, "broker", "key_b64")) if n in self._schema.names]
        for number in groups:
            line = int(self._first_line[number])
            for part in self._file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False):
                numbered = part.append_column(_LINE, pa.array(np.arange(line, line + part.num_rows)))
                line += part.num_rows
                inside = seqs.of(numbered)
                if inside.num_rows:
                    yield from self._checked(inside, number, columns, rows)

    def unchecked(self, groups: Sequence[int], seqs: SeqRange, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields columns of `EVENT_SCHEMA` of all rows in a range of seq; raises as `read` does."""
        names = [name for name in dict.fromkeys((*columns, "seq")) if name in self._schema.names]
        for part in self._file.iter_batches(row_groups=groups, columns=names, use_threads=False):
            inside = seqs.of(part)
            found = {
                name: self._conformed(inside.column(name), name)
                if name in inside.schema.names
                else pa.nulls(inside.num_rows, ARROW_TYPES[name])
                for name in columns
            }
            yield pa.record_batch(found)

    def _checked(self, part: pa.RecordBatch, group: int, columns: Sequence[str], rows: int) -> Iterator[RowsRead]:
        found, faults = self._typed(part, columns)
        structs = found["snapshot"]
        found["snapshot"], bad = checked_structs(structs)
        good = good_rows(pa.record_batch([found[name] for name in CHECKED], names=list(CHECKED))) & ~bad
        good[list(faults)] = False
        batch = pa.record_batch([found[name] for name in columns], names=list(columns))
        if good.all():
            yield from rows_read([batch], [], part.num_rows, columns, rows)
            return
        doubtful = np.flatnonzero(~good)
        late, refused = self._one_by_one({**found, "snapshot": structs}, doubtful, faults, part.column(_LINE), group)
        both = [batch.filter(pa.array(good)), batch_of_values(late, columns)]
        yield from rows_read(both, refused, part.num_rows, columns, rows)

    def _typed(self, part: pa.RecordBatch, columns: Sequence[str]) -> tuple[dict[str, pa.Array], dict[int, Fault]]:
        """Returns columns of the format, and the faults of rows that lost a value by the conversion."""
        found: dict[str, pa.Array] = {}
        faults: dict[int, Fault] = {}
        for name in (name for name in EVENT_SCHEMA.names if name in {*columns, *CHECKED, "broker"}):
            if name not in part.schema.names:
                found[name] = pa.nulls(part.num_rows, ARROW_TYPES[name])
                continue
            given = part.column(name)
            found[name] = self._conformed(given, name)
            if pa.types.is_integer(ARROW_TYPES[name]) and found[name].null_count > given.null_count:
                lost = pc.and_(pc.is_valid(given), pc.is_null(found[name])).to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(lost).tolist():
                    faults.setdefault(row, Fault("wrong_type", name))
        if "key_b64" in part.schema.names:
            found["key"] = self._keys(found["key"], part.column("key_b64"), faults)
        return found, faults

    def _conformed(self, column: pa.Array, name: str) -> pa.Array:
        try:
            return conform(column, ARROW_TYPES[name])
        except OtherColumnError:
            given, wanted = (_named(kind) for kind in (self._schema.field(name).type, ARROW_TYPES[name]))
            raise TraceError(
                f"{self._log}: column {name} has type {given}, but format 1 has {wanted}",
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
        self,
        found: Mapping[str, pa.Array],
        doubtful: NDArray[np.int64],
        faults: Mapping[int, Fault],
        lines: pa.Array,
        group: int,
    ) -> tuple[list[Values], list[Refused]]:
        """Returns the values of the good ones among some rows, and the others with their faults."""
        table = pa.record_batch(list(found.values()), names=list(found)).take(pa.array(doubtful))
        good: list[Values] = []
        refused: list[tuple[Fault, Values, int]] = []
        numbers = lines.take(pa.array(doubtful)).to_pylist()
        for row, values, line in zip(
            doubtful.tolist(), table.to_pylist(maps_as_pydicts="strict"), numbers, strict=True
        ):
            fault = faults.get(row) or fault_of(values)
            if fault is None:
                good.append(values)
            else:
                refused.append((fault, values, line))
        if not refused:
            return good, []
        texts = self._texts([line for _, _, line in refused], group)
        return good, [
            Refused(fault, values, line if self._numbered else None, raw)
            for (fault, values, line), raw in zip(refused, texts, strict=True)
        ]

    def _texts(self, lines: Sequence[int], group: int) -> list[str]:
        """Returns rows as JSON, with all columns of the file."""
        at = pa.array(np.array(lines) - self._first_line[group])
        table = self._file.read_row_group(group, use_threads=False).take(at).combine_chunks()
        names = table.schema.names
        columns = [_values(name, column.combine_chunks()) for name, column in zip(names, table.columns, strict=True)]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return [json.dumps(_without_nulls(row), default=_shown, separators=(",", ":")) for row in rows]


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
