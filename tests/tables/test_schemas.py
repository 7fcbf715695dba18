import re

import pytest

from dispatch_audit.pipeline.tables.schemas import TABLES, VIOLATIONS
from dispatch_audit.pipeline.tables.table_schema import TableSchema

every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@every_table
def test_columns_begin_with_the_run_and_are_unique(table: TableSchema) -> None:
    names = [column.name for column in table.columns]
    assert names[0] == "run_key"
    assert len(names) == len(set(names))


@every_table
def test_a_derived_timestamp_repeats_a_column_of_microseconds(table: TableSchema) -> None:
    columns = {column.name: column for column in table.columns}
    for column in table.columns:
        assert (column.type == "timestamp") == (column.derived_from is not None)
        if column.derived_from is not None:
            source = columns[column.derived_from]
            assert (source.type, source.nullable) == ("bigint", column.nullable)


@every_table
def test_constraints_speak_of_columns_that_exist(table: TableSchema) -> None:
    assert table.constraints
    for check in table.constraints.values():
        without_strings = re.sub(r"'[^']*'", "", check)
        words = set(re.findall(r"[a-z_]{3,}(?!\()\b", without_strings))
        assert words & {column.name for column in table.columns}
        assert words <= {column.name for column in table.columns} | {"least", "size", "length"}


def test_the_replay_fills_neither_the_run_nor_timestamps() -> None:
    names = VIOLATIONS.arrow_schema.names
    assert "ts_us" in names
    assert not {"run_key", "ts"} & set(names)


def test_a_quote_in_a_comment_does_not_end_the_statement() -> None:
    assert r"'broker\'s clock at that event, UTC'" in VIOLATIONS.ddl("delta.`/x`")
