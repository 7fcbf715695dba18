"""The JSON Schemas of format 1 take what the readers take, and refuse what they refuse."""

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from judged_rows import BAD_ROWS, LEGITIMATE_ROWS
from recorded import RECORDINGS
from samples import SAMPLES
from trace_rows import GAP_OF_ALL, GOOD_ROWS, REFUSED_JOIN, STATS

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.pages.markdown import DOCS
from dispatch_audit.pipeline.trace.lines.one_line import read_line
from dispatch_audit.pipeline.trace.manifest import manifest_in

ROWS = jsonschema.Draft202012Validator(json.loads((DOCS / "schema" / "row-1.schema.json").read_text()))
MANIFESTS = jsonschema.Draft202012Validator(json.loads((DOCS / "schema" / "trace-1.schema.json").read_text()))
FOLDERS = sorted(path.parent for of in (SAMPLES, RECORDINGS) for path in of.glob("*/trace.json"))
# Of each log of a sample; all rows of all recordings take minutes.
ROWS_OF_A_LOG = 40


def is_good(row: Mapping[str, Any]) -> bool:
    return read_line(json.dumps(row)).fault is None


@pytest.mark.parametrize("schema", [ROWS, MANIFESTS], ids=["rows", "manifest"])
def test_the_schema_is_one(schema: jsonschema.Draft202012Validator) -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_manifests_of_recordings_are_valid(folder: Path) -> None:
    MANIFESTS.validate(json.loads((folder / "trace.json").read_text()))


def test_rows_of_the_samples_are_valid() -> None:
    events = set()
    for log in sorted(SAMPLES.glob("*/*.jsonl.gz")):
        with gzip.open(log, "rt") as lines:
            chosen = random.Random(log.name).sample(list(lines), ROWS_OF_A_LOG)
        for row in map(json.loads, chosen):
            ROWS.validate(row)
            events.add(row["event"])
    assert {"publish", "dispatch", "ack", "join", "stats"} <= events


@pytest.mark.parametrize("row", [*GOOD_ROWS, GAP_OF_ALL], ids=lambda row: f"{row['event']}-{row['seq']}")
def test_good_rows_are_valid(row: Mapping[str, Any]) -> None:
    ROWS.validate(row)


def test_legitimate_rows_are_valid() -> None:
    for row in LEGITIMATE_ROWS:
        if not isinstance(row, str):
            ROWS.validate(row)


def _beyond_a_schema(row: Mapping[str, Any], detail: str | None) -> bool:
    """Whether a schema cannot see a fault: a comparison of two fields, or a number with a fraction of zero."""
    return str(detail).startswith(("snapshot.seq_begin", "seq = 6.0")) or detail == "ranges"


def test_bad_rows_are_invalid() -> None:
    taken = [(row, detail) for row, _, detail in BAD_ROWS if not isinstance(row, str) and ROWS.is_valid(row)]
    assert [detail for row, detail in taken if not _beyond_a_schema(row, detail)] == [
        # Ranges of a snapshot that end before they begin.
        "snapshot.consumers"
    ]
    assert len(taken) <= 5


def _spoilt() -> Iterator[dict[str, Any]]:
    """Good rows, with each of their fields and of those of other rows absent, null, or of another value."""
    names = sorted({name for row in GOOD_ROWS for name in row})
    for row in GOOD_ROWS:
        for name in names:
            yield {field: value for field, value in row.items() if field != name}
            value: Any
            for value in (None, -1, 0, 1, "", "x", "start", "end", "none", True, [], {}, [None], 1.5, 2**40, 2**70):
                yield {**row, name: value}
                yield {**row, name: value, "phase": "start"}
                yield {**row, name: value, "phase": "end"}


def _is_text(name: str) -> bool:
    return bool(ROWS.schema["properties"][name]["type"] == ["string", "null"])


def _compares(row: Mapping[str, Any]) -> bool:
    """Whether the row is refused because of two fields, of which each by itself is possible."""
    if row.get("ranges") == REFUSED_JOIN["ranges"]:
        return True
    numbers = [row.get(name) for name in ("seq_begin", "seq", "seq_end")]
    begin, seq, end = (number if type(number) is int else None for number in numbers)
    if row.get("event") == "gap":
        return seq is not None and end is not None and end < seq
    return row.get("event") == "settings" and seq is not None and begin is not None and seq < begin


def test_schema_and_readers_agree_on_spoilt_rows() -> None:
    compared = 0
    for row in _spoilt():
        # Readers take any value for a text.
        of_types = all(isinstance(value, str | None) or not _is_text(name) for name, value in row.items())
        if of_types and not _compares(row):
            assert ROWS.is_valid(row) == is_good(row), row
            compared += 1
    assert compared > 10_000


@pytest.mark.parametrize("event", [row["event"] for row in GOOD_ROWS])
def test_a_row_of_each_event_is_invalid_without_its_topic_or_with_another_one(event: str) -> None:
    row = next(row for row in GOOD_ROWS if row["event"] == event)
    assert not ROWS.is_valid({**row, "topic": ""})
    assert not ROWS.is_valid({**row, "topic": None})


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({}, True),
        ({"cluster": "a"}, True),
        ({"settings": {"numIOThreads": 4, "delayedDeliveryEnabled": None}}, True),
        ({"recorder": {"name": "lab", "version": "1"}, "keys": "digest", "recorded_by": "client"}, True),
        ({"trace_format": 2}, False),
        ({"pulsar_version": 4}, False),
        ({"complete_from_start": "yes"}, False),
        ({"settings": {"maxUnackedMessagesPerConsumer": "5"}}, False),
        ({"settings": {"delayedDeliveryEnabled": 1}}, False),
        ({"settings": {"numIOThreads": [4]}}, False),
        ({"recorder": "lab"}, False),
        ({"keys": "hashed"}, False),
        ({"recorded_by": "proxy"}, False),
        ({"note": 1}, False),
    ],
)
def test_schema_and_reader_agree_on_manifests(tmp_path: Path, changes: Mapping[str, Any], valid: bool) -> None:
    manifest = {"trace_format": 1, "pulsar_version": "4.0.8", **changes}
    (tmp_path / "trace.json").write_text(json.dumps(manifest))

    assert MANIFESTS.is_valid(manifest) == valid
    try:
        manifest_in(tmp_path)
    except TraceError:
        assert not valid
    else:
        assert valid


def test_a_snapshot_is_looked_into() -> None:
    assert not ROWS.is_valid({**STATS, "snapshot": {**STATS["snapshot"], "msg_in_replay": "1"}})
