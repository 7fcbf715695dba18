"""Lines of every kind of garbage: each is read or set aside, whole, and none is lost or taken for another."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from conftest import MANIFEST
from damage import PIECES, damaged, is_one_object
from reading import Rows
from reading import read as read_trace
from trace_rows import FLOW, GOOD_ROWS

from dispatch_audit.pipeline.trace import open_traces

_BLANK = b" \t\r"


def read(folder: Path, lines: list[bytes], log: str = "events.jsonl") -> tuple[int, Rows]:
    """How many of the lines were read as rows that can be audited, and those that were set aside."""
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    content = b"\n".join([*lines, b""])
    (folder / log).write_bytes(gzip.compress(content) if log.endswith(".gz") else content)
    (trace,) = open_traces([folder])
    good, refused = read_trace(trace)
    return len(good), refused


def check(lines: list[bytes], good: int, aside: Rows) -> None:
    """That every line which is a row is good or set aside, and that no line is good which is not one JSON object."""
    rows = [number for number, line in enumerate(lines, 1) if line.strip(_BLANK)]
    assert good + len(aside) == len(rows)
    assert max(Counter(row["line"] for row in aside).values(), default=1) == 1
    for row in aside:
        line = lines[row["line"] - 1]
        # A mark of byte order at the beginning of a file is no text, and what is no UTF-8 cannot be shown.
        assert row["raw"].replace("\ufffd", "") == _shown(line, first=row["line"] == 1).replace("\ufffd", "")
    no_object = {number for number in rows if not is_one_object(_unmarked(lines[number - 1], number == 1))}
    assert [lines[number - 1] for number in no_object - {row["line"] for row in aside}] == []
    # Whichever the parser comes upon first.
    assert {row["refused"] for row in aside if row["line"] in no_object} <= {"broken_json", "wrong_type"}


def _unmarked(line: bytes, first: bool) -> bytes:
    return line.removeprefix(b"\xef\xbb\xbf") if first else line


def _shown(line: bytes, first: bool) -> str:
    return _unmarked(line, first).decode(errors="replace")


@pytest.mark.parametrize("log", ["events.jsonl", "events.jsonl.gz"])
def test_damaged_lines_are_read_or_set_aside(tmp_path: Path, log: str) -> None:
    dice = random.Random(f"damaged {log}")
    lines = [damaged(dice.choice(GOOD_ROWS), dice) for _ in range(1_500)]
    good, aside = read(tmp_path / "t", lines, log)
    check(lines, good, aside)
    # Otherwise the test would not be about both.
    assert good > 100
    assert {"broken_json", "wrong_type", "impossible_value", "missing_field"} <= {row["refused"] for row in aside}


@pytest.mark.parametrize("seed", range(2))
def test_lines_put_together_of_pieces(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    lines = ["".join(dice.choices(PIECES, k=dice.randrange(9))).encode(errors="surrogatepass") for _ in range(1_500)]
    good, aside = read(tmp_path / "t", lines)
    check(lines, good, aside)


_GOOD = json.dumps(FLOW)


_REST = ("]}", f"]}}{_GOOD}", f'],"x":[{_GOOD}', f",null]}}{_GOOD}", "\x00", "\ufeff", "}", ",", f",{_GOOD}", _GOOD)


def test_nothing_after_a_row_is_lost(tmp_path: Path) -> None:
    lines = [_GOOD, *(_GOOD + rest for rest in _REST)]
    good, aside = read(tmp_path / "t", [line.encode() for line in lines])
    assert good == 1
    assert {(row["line"], row["refused"], row["raw"]) for row in aside} == {
        (number, "broken_json", line) for number, line in enumerate(lines[1:], 2)
    }


def test_huge_values_are_kept_whole(tmp_path: Path) -> None:
    huge = 10_000_000
    deep = '{"a":' * 10_000 + "1" + "}" * 10_000
    lines = [
        json.dumps({**FLOW, "consumer_name": "x" * huge}),
        json.dumps({**FLOW, "key_b64": "A" * huge}),
        json.dumps({**FLOW, "key_b64": "!" * huge}),
        _GOOD[:-1] + ', "permits": ' + "9" * 100_000 + "}",
        _GOOD[:-1] + f', "an addition": {deep}}}',
        "x" * huge,
    ]
    good, aside = read(tmp_path / "t", [line.encode() for line in lines])
    assert good == 2
    assert [(row["line"], row["refused"]) for row in sorted(aside, key=lambda row: int(row["line"]))] == [
        (3, "bad_key"),
        (4, "broken_json"),
        (5, "broken_json"),
        (6, "broken_json"),
    ]
    assert all(row["raw"] == lines[row["line"] - 1] for row in aside)


def test_a_value_of_another_type_is_named_beside_the_end_of_the_line(tmp_path: Path) -> None:
    lines = [
        json.dumps({**FLOW, "permits": "many"}),
        json.dumps({**FLOW, "positions": [{"ledger_id": {}}]}),
        json.dumps({**FLOW, "consumer": 2**63}),
    ]
    _, aside = read(tmp_path / "t", [line.encode() for line in lines])
    assert sorted((row["line"], row["seq"], row["refused"], row["detail"]) for row in aside) == [
        (1, 6, "wrong_type", 'permits = "many", not a whole number of 32 bits'),
        (2, 6, "wrong_type", "positions[0].ledger_id = {}, not a whole number of 64 bits"),
        (3, 6, "wrong_type", f"consumer = {2**63}, not a whole number of 64 bits"),
    ]
