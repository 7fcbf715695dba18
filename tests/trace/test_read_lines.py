"""Lines that the workers read: their rows, and each refused line with its reason, number and text."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from damage import PIECES, damaged
from pyspark.sql import SparkSession
from test_trace_validate import BAD_ROWS, LEGITIMATE_ROWS
from trace_rows import ACK, FLOW, GOOD_ROWS, PUBLISH, STATS

from dispatch_audit.pipeline.trace import EVENT_SCHEMA, open_traces, quarantined, read_events
from dispatch_audit.pipeline.trace.lines import blocks
from dispatch_audit.pipeline.trace.lines.one_line import read_line
from dispatch_audit.pipeline.trace.lines.read_lines import read_lines

_COLUMNS = EVENT_SCHEMA.names
_MANY = 100_000


def line_of(row: Mapping[str, Any] | str) -> bytes:
    return (row if isinstance(row, str) else json.dumps(row)).encode()


def read(
    path: Path, begin: int = 0, end: int | None = None, rows: int = _MANY
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """The good rows of a part of a file, the refused ones, and the number of its lines."""
    good, refused, lines = [], [], 0
    for part in read_lines(str(path), begin, end, _COLUMNS, rows):
        assert part.good.num_rows <= rows
        good += part.good.to_pylist()
        refused += part.refused.to_pylist()
        lines += part.lines
    return good, sorted(refused, key=lambda row: int(row["line"])), lines


def written(folder: Path, lines: Sequence[bytes], name: str = "events.jsonl", ending: bytes = b"\n") -> Path:
    content = b"\n".join(lines) + ending
    path = folder / name
    if name.endswith(".zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def test_each_bad_row_is_refused_for_its_reason(tmp_path: Path) -> None:
    lines = [line_of(row) for row, _, _ in BAD_ROWS]
    good, refused, count = read(written(tmp_path, lines))
    assert good == []
    assert count == len(lines)
    assert [(row["line"], row["refused"], row["detail"], row["raw"]) for row in refused] == [
        (number, reason, detail, line.decode())
        for number, (line, (_, reason, detail)) in enumerate(zip(lines, BAD_ROWS, strict=True), 1)
    ]


def test_what_is_legitimate_is_not_refused(tmp_path: Path) -> None:
    good, refused, _ = read(written(tmp_path, [line_of(row) for row in LEGITIMATE_ROWS]))
    assert refused == []
    assert len(good) == len(LEGITIMATE_ROWS)


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz", "events.jsonl.zst"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    lines = [b"\xef\xbb\xbf" + line_of(FLOW), b"", b"\t \r", line_of({**FLOW, "permits": -1}), line_of(ACK)]
    good, refused, count = read(written(tmp_path, lines, name))
    assert sorted(row["seq"] for row in good) == [ACK["seq"], FLOW["seq"]]
    assert [(row["line"], row["refused"], row["seq"], row["topic"]) for row in refused] == [
        (4, "impossible_value", FLOW["seq"], FLOW["topic"])
    ]
    assert count == len(lines)


def _values(line: bytes) -> tuple[Any, ...]:
    """A line by itself, as the two ways have it: the row or the reason."""
    row, fault = read_line(line.decode(errors="replace"))
    return (fault, None if fault else json.dumps(_plain(row), sort_keys=True, default=repr))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(4))
def test_lines_in_a_block_are_read_as_by_themselves(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    lines = [damaged(dice.choice(GOOD_ROWS), dice) for _ in range(1_500)]
    lines += ["".join(dice.choices(PIECES, k=dice.randrange(9))).encode(errors="surrogatepass") for _ in range(500)]
    dice.shuffle(lines)
    good, refused, count = read(written(tmp_path, lines))
    assert count == len(lines)
    expected = {number: _values(line) for number, line in enumerate(lines, 1) if line.strip(b" \t\r")}
    assert {row["line"]: (row["refused"], row["detail"]) for row in refused} == {
        number: fault for number, (fault, _) in expected.items() if fault
    }
    for row in good:
        row["snapshot"] = row["snapshot"] and json.loads(row["snapshot"])
    assert Counter(json.dumps(_plain(row), sort_keys=True, default=repr) for row in good) == Counter(
        row for fault, row in expected.values() if not fault
    )
    # Otherwise the test would not be about both.
    assert len(good) > 100
    assert len(refused) > 100


# What the compiled parser has to tell apart, beside what `damage` does.
_LIMITS = (
    *({**ACK, "positions": [{"ledger_id": 1, "entry_id": 1, "ack_set": [word]}]} for word in
      (2**63 - 1, -(2**63), 10**18, -(10**18), 0, -1)),
    *({**FLOW, "seq": seq} for seq in (0, 9, 10**17, 999_999_999_999_999_999, 10**18, 2**63 - 1)),
    *({**FLOW, "permits": permits} for permits in (0, 2**31 - 1)),
    {**PUBLISH, "batch_keys": ["a", None, "ä\n\"\\", ""]},
    {**PUBLISH, "batch_keys": []},
    {**FLOW, "topic": "ü/\u2028\n\"", "consumer_name": "\U0001f600"},
    {**PUBLISH, "key_b64": "/+8="},
    {**PUBLISH, "key_b64": "a a=="},
    {**FLOW, "an": {"addition": [1, {"a": [[], {}, "x", -1.5e-3, True, None]}]}},
)  # fmt: skip


@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "utf-8"])
@pytest.mark.parametrize("spaced", [(", ", ": "), (",", ":"), (" ,\t", " :\r ")], ids=["spaces", "none", "many"])
def test_values_at_limits_are_read(tmp_path: Path, ascii_only: bool, spaced: tuple[str, str]) -> None:
    rows = [*_LIMITS, *GOOD_ROWS]
    lines = [json.dumps(row, ensure_ascii=ascii_only, separators=spaced).encode() for row in rows]
    good, refused, _ = read(written(tmp_path, lines))
    assert refused == []
    for row in good:
        row["snapshot"] = row["snapshot"] and json.loads(row["snapshot"])
    assert Counter(json.dumps(_plain(row), sort_keys=True, default=repr) for row in good) == Counter(
        row for fault, row in map(_values, lines) if not fault
    )


def test_half_of_a_surrogate_pair_is_no_character(tmp_path: Path) -> None:
    line = line_of({**FLOW, "consumer_name": "x"}).replace(b'"x"', b'"a\\ud800b"')
    ((row,), refused, _) = read(written(tmp_path, [line]))
    assert refused == []
    assert row["consumer_name"] == "a?b"


def test_a_snapshot_has_the_fields_of_the_format(tmp_path: Path) -> None:
    snapshot = {"an_addition": 1, **STATS["snapshot"], "read_position": None}
    ((row,), _, _) = read(written(tmp_path, [line_of({**STATS, "snapshot": snapshot})]))
    assert json.loads(row["snapshot"]) == STATS["snapshot"]


@pytest.mark.parametrize(
    ("last", "reason"),
    [(b'{"event": "fl', "cut_off"), (b"garbage", "broken_json"), (line_of({**FLOW, "seq": -1}), "impossible_value")],
)
@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz", "events.jsonl.zst"])
def test_a_log_may_end_in_the_middle_of_a_row(tmp_path: Path, name: str, last: bytes, reason: str) -> None:
    for ending, expected in ((b"", reason), (b"\n", reason.replace("cut_off", "broken_json"))):
        good, refused, count = read(written(tmp_path, [line_of(FLOW), last], name, ending))
        assert len(good) == 1
        assert [(row["line"], row["refused"], row["raw"]) for row in refused] == [(2, expected, last.decode())]
        assert count == 2


@pytest.mark.parametrize("name", ["events.jsonl.gz", "events.jsonl.zst"])
def test_a_damaged_archive_is_an_error(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, [line_of({**FLOW, "seq": seq}) for seq in range(5_000)], name)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises((OSError, EOFError)):
        read(path)


def test_archives_may_have_several_members(tmp_path: Path) -> None:
    member = gzip.compress(line_of(FLOW) + b"\n")
    (tmp_path / "events.jsonl.gz").write_bytes(member + member)
    good, _, count = read(tmp_path / "events.jsonl.gz")
    assert len(good) == count == 2


def test_parts_cover_every_line_once(tmp_path: Path) -> None:
    dice = random.Random("parts")
    lines = [
        dice.choice([line_of({**FLOW, "seq": seq}), b"", b"garbage " + b"x" * dice.randrange(200)]) for seq in range(60)
    ]
    path = written(tmp_path, lines)
    size = path.stat().st_size
    whole_good, whole_refused, count = read(path)
    for _ in range(200):
        cuts = sorted({0, size, *(dice.randrange(size) for _ in range(dice.randrange(5)))})
        good, refused, before = [], [], 0
        for begin, end in pairwise(cuts):
            found, aside, number = read(path, begin, end)
            good += found
            refused += [{**row, "line": before + row["line"]} for row in aside]
            before += number
        assert (good, refused, before) == (whole_good, whole_refused, count)


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_small_blocks_give_the_same_rows(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line_of({**FLOW, "seq": seq, "permits": -seq % 3 - 1}) for seq in range(300)]
    path = written(tmp_path, [*lines, b"x" * 9_000, *lines], name)
    expected = read(path)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1_000)
    monkeypatch.setattr(blocks, "_LINES_MAX", 3)
    assert read(path, rows=2) == expected


def _normal(text: str | None) -> str | None:
    # How many U+FFFD stand for bytes that are not UTF-8 is up to the reader.
    while text and "\ufffd\ufffd" in text:
        text = text.replace("\ufffd\ufffd", "\ufffd")
    return text


# A number beyond the range of a double in a text field is "Infinity" to Spark.
_NOT_AS_SPARK = b"1e400"


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2))
def test_verdicts_are_those_of_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    dice = random.Random(f"spark {seed}")
    lines = [damaged(dice.choice(GOOD_ROWS), dice) for _ in range(3_000)]
    lines += ["".join(dice.choices(PIECES, k=dice.randrange(9))).encode(errors="surrogatepass") for _ in range(1_000)]
    lines = [line for line in lines if _NOT_AS_SPARK not in line]
    path = written(tmp_path, lines)
    (tmp_path / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (trace,) = open_traces([tmp_path])
    good, refused, _ = read(path)

    def verdict(row: Mapping[str, Any], reason: str) -> tuple[Any, ...]:
        texts = (_normal(row[name]) for name in ("topic", "subscription", "detail"))
        return (row["line"], row[reason], row["seq"], *texts)

    expected = [row.asDict() for row in quarantined(spark, trace).collect()]
    assert {verdict(row, "refused") for row in refused} == {verdict(row, "reason") for row in expected}
    rows = read_events(spark, trace).where("refused IS NULL").drop("snapshot", "refused", "detail").toArrow()
    found = ({name: row[name] for name in rows.column_names} for row in good)
    assert Counter(_normal(repr(row)) for row in found) == Counter(_normal(repr(row)) for row in rows.to_pylist())


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"msg_in_replay": "1"}, True),
        ({"msg_in_replay": True}, True),
        ({"msg_in_replay": 1.0}, True),
        ({"msg_in_replay": 2**63}, True),
        ({"consumers": ""}, True),
        ({"consumers": {}}, True),
        ({"consumers_after_mark_delete_position": []}, True),
        ({"consumers_after_mark_delete_position": {"c": 1}}, False),
        ({"read_position": 1.5}, False),
        ({"read_position": "\ud800"}, False),
        ({"read_position": ""}, False),
        ({"an_addition": 2**70}, False),
    ],
)
def test_a_snapshot_is_typed_as_the_other_columns(tmp_path: Path, change: Mapping[str, Any], refused: bool) -> None:
    bad = {**STATS, "snapshot": {**STATS["snapshot"], **change}}
    good, aside, _ = read(written(tmp_path, [line_of(STATS), line_of(bad), line_of({**STATS, "seq": 1})]))
    assert [row["refused"] for row in aside] == ["wrong_type"] * refused
    assert len(good) == 3 - refused
    spoilt, fault = read_line(line_of(bad).decode())
    assert (fault is not None) == refused
    if not refused:
        known = {name: value for name, value in spoilt["snapshot"].items() if value is not None}
        assert json.dumps(known) in [row["snapshot"] for row in good]
