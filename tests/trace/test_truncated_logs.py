"""Telling the beginning of a row from garbage, without Spark."""

import json

import pytest
from trace_rows import GOOD_ROWS

from dispatch_audit.pipeline.trace.lines.truncated import begins_an_object


@pytest.mark.parametrize("row", GOOD_ROWS, ids=lambda row: f"{row['event']}-{row['seq']}")
def test_every_beginning_of_a_row_is_one(row: dict[str, object]) -> None:
    text = json.dumps({**row, "x": [True, None, -1.5e-3, "ü\n"]})
    assert [end for end in range(1, len(text)) if not begins_an_object(text[:end])] == []
    assert not begins_an_object(text)


@pytest.mark.parametrize("text", ["", "x", "[1", '{"a" 1', "{'a'", '{"a":1}}', '{"a":1}{"b"', '{"a":tru1', "[" * 99])
def test_garbage_is_no_beginning(text: str) -> None:
    assert not begins_an_object(text)
