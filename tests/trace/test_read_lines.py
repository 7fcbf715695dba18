"""Lines that the workers read: their rows, and each refused line with its reason, number and text."""

import gzip
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from damage import PIECES, damaged, is_one_object
from judged_rows import BAD_ROWS, LEGITIMATE_ROWS
from trace_rows import ACK, FLOW, GOOD_ROWS, JOIN, PUBLISH, STATS

from dispatch_audit.pipeline.trace import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.lines import blocks
from dispatch_audit.pipeline.trace.lines.one_line import read_line
from dispatch_audit.pipeline.trace.lines.open_lines import DAMAGED
from dispatch_audit.pipeline.trace.lines.read_lines import LineReader

_COLUMNS = EVENT_SCHEMA.names
_MANY = 100_000
VERDICTS = Path(__file__).parents[1] / "data" / "verdicts_of_lines.jsonl.gz"


def line_of(row: Mapping[str, Any] | str) -> bytes:
    return (row if isinstance(row, str) else json.dumps(row)).encode()


def read(
    path: Path, begin: int = 0, end: int | None = None, rows: int = _MANY
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """The good rows of a part of a file, the refused ones, and the number of its lines."""
    good, refused, lines = [], [], 0
    for part in LineReader(_COLUMNS, rows).file(path, begin, end):
        assert part.good.num_rows <= rows
        good += part.good.to_pylist(maps_as_pydicts="strict")
        refused += part.refused.to_pylist()
        lines += part.lines
    return good, sorted(refused, key=lambda row: int(row["line"])), lines


def written(folder: Path, lines: Sequence[bytes], name: str = "events.jsonl", ending: bytes = b"\n") -> Path:
    content = b"\n".join(lines) + ending
    path = folder / name
    if name.endswith(".gz"):
        content = gzip.compress(content)
    elif name.endswith(".zst"):
        content = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    path.write_bytes(content)
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
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DAMAGED) as raised:
        read(path)
    assert not isinstance(raised.value, EOFError)


# Nothing, four bytes of the sums at the end (all of zstd's, half of gzip's), and of the lines themselves.
@pytest.mark.parametrize("lost", [0, 2, 4, 400])
@pytest.mark.parametrize("name", ["events.jsonl.gz", "events.jsonl.zst"])
def test_an_archive_that_ends_too_early_is_read_up_to_there(
    tmp_path: Path, name: str, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 15)
    lines = [line_of({**FLOW, "seq": seq}) for seq in range(5_000)]
    path = written(tmp_path, lines, name)
    path.write_bytes(path.read_bytes()[: -lost or None])
    decompressor = (
        zlib.decompressobj(wbits=31) if name.endswith(".gz") else zstandard.ZstdDecompressor().decompressobj()
    )
    whole, _, torn = decompressor.decompress(path.read_bytes()).rpartition(b"\n")
    good, refused, count = read(path)
    assert [line_of({**FLOW, "seq": row["seq"]}) for row in good] == whole.split(b"\n")
    assert bool(torn) == (lost == 400)
    found = [(row["line"], row["refused"], row["raw"]) for row in refused]
    assert found == ([(len(good) + 1, "cut_off", torn.decode())] if lost else [])
    assert count == len(good) + len(found)


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


def _normal(text: Any) -> Any:
    # How many U+FFFD stand for bytes that are not UTF-8 is up to the reader.
    while isinstance(text, str) and "\ufffd\ufffd" in text:
        text = text.replace("\ufffd\ufffd", "\ufffd")
    return text


def _as_spark(row: Mapping[str, Any]) -> str | None:
    """The detail as Spark knew it: what is wrong with JSON only of several objects, and of a wrong type the field."""
    detail: str = row["detail"]
    if row["refused"] == "broken_json":
        return detail if detail.startswith("several") else None
    if row["refused"] != "wrong_type":
        return detail
    field, *within = re.split(r"[.\[]", detail.partition(" = ")[0])
    is_of_struct = any(not part.removesuffix("]").isdigit() for part in within)
    # Of a field that is there twice Spark took the last value, and did not say which one is wrong.
    is_there_twice = row["raw"].count(f'"{field}"') > 1
    return "a nested field" if is_of_struct or is_there_twice else field


def test_verdicts_are_those_that_spark_gave(tmp_path: Path) -> None:
    """Until version 0.4 Spark parsed lines, and its SQL checked rows; its verdicts on damaged lines were kept."""
    with gzip.open(VERDICTS, "rt") as recorded:
        known = [json.loads(line) for line in recorded]
    lines = [row["line"].encode("latin-1") for row in known]
    good, refused, _ = read(written(tmp_path, lines))
    names = ("detail", "topic", "subscription", "seq")
    rows = {row["line"]: {**row, "detail": _as_spark(row)} for row in refused}
    found = {line: [row["refused"], *(_normal(row[name]) for name in names)] for line, row in rows.items()}
    judged = [(row["verdict"], number) for number, row in enumerate(known, 1) if row["verdict"] is not None]
    # Spark took two lines that break off within a nested field for rows with a wrong type.
    broken = {n for verdict, n in judged if verdict[0] == "wrong_type" and not is_one_object(lines[n - 1])}
    assert len(broken) == 2
    nothing = ["broken_json", None, None, None, None]
    assert found == {n: nothing if n in broken else [_normal(part) for part in verdict] for verdict, n in judged}
    assert len(good) > 500
    assert {"broken_json", "wrong_type", "bad_key", "unknown_event", "missing_field", "impossible_value"} <= {
        verdict[0] for verdict, _ in judged
    }


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_good_rows_that_are_asked_for_come_with_their_texts(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The escaped name makes the parser leave a row to the function for single lines, like declared ranges.
    rows = [{**FLOW, "seq": seq} for seq in range(40)] + [{**FLOW, "topic": "other", "seq": 3}, {**JOIN, "seq": 7}]
    lines = [b"", *map(line_of, rows), line_of({**FLOW, "seq": 3, "permits": -1})]
    path = written(tmp_path, lines, name)
    asked = AskedRows.of(pa.table({"topic": [FLOW["topic"]] * 4, "seq": [7, 3, 3, 99]}))
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1_000)
    parts = LineReader(["seq"], 10, asked=asked).file(path, 0, None)
    found = sorted((row for part in parts for row in part.asked.to_pylist()), key=lambda row: int(row["line"]))
    assert [(row["line"], row["refused"], row["raw"].encode()) for row in found] == [
        (line, None, lines[line - 1]) for line in (5, 9, 43)
    ]
    assert {row["subscription"] for row in found} == {"ks"}


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
