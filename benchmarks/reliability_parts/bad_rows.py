"""Bad rows: a recorded trace, spoilt at random and audited; whether each row is accounted for.

Half of the rows that are spoilt stand in JSON Lines, half in Parquet, as two traces of one audit, so that lines and
columns have their share.
"""

import base64
import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.line_damage import another_value, cut, flipped, noise, repeated_name
from benchmarks.reliability_parts.audited import Means
from benchmarks.runs import ROOT
from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import EVENT_SCHEMA, open_traces

_SAMPLE: Final = ROOT / "data" / "samples" / "hung-consumer-4.0.8"
_NUMBERS: Final = ("seq", "ts_us", "ledger_id", "entry_id", "consumer", "permits", "batch_size")
_TEXTS: Final = ("event", "phase", "topic", "subscription", "ack_type", "reason", "key_b64")
_DEEP: Final = "[" * 10_000 + "]" * 10_000
_NO_VALUES: Final = (
    *("null", "NaN", "-Infinity", "1.5", "1e400", "007", "true", "{}", "[[]]", "9" * 10_000, _DEEP, str(2**63), "-1"),
    *('""', '"\\ud800"', '"\\u0000"', '"\\ufffd"', '"\'; DROP TABLE runs; --"', '"../../x"', '"<script>"', '"!"'),
)


def bad_rows(means: Means, folder: Path, count: int, seed: int) -> dict[str, int]:
    """Spoils rows of a recorded trace, audits it, and adds up what the tables say.

    Args:
        means: of the audit.
        folder: for traces and tables; must not exist yet.
        count: how many rows are spoilt; the trace is repeated until it has as many.
        seed: of the damage.

    Returns:
        `bad_rows_in`: rows in, good ones too, as counted when they were written; `audited` and `quarantined`: as `runs`
        says; `lost`: rows in that are in neither, or that `quarantine` does not hold.
    """
    dice = random.Random(seed)
    (trace,) = open_traces([_SAMPLE])
    good = typed_rows(trace)
    lines = count // 2
    written = _write_lines(folder / "lines", good, lines, dice)
    written += _write_columns(folder / "columns", good, count - lines, dice)
    settings = load_settings()
    lenient = settings.trace.model_copy(update={"quarantine_ratio_max": 1.0, "truncated_log": "quarantine"})
    for log in ("lines", "columns"):
        means.audited(folder / log, folder / "tables", settings.model_copy(update={"trace": lenient}))
    tables = tables_of(None, parse_target(str(folder / "tables")))
    runs = tables.query("runs", "events_audited, events_quarantined")
    set_aside = len(tables.query("quarantine", "reason", "WHERE raw IS NOT NULL"))
    audited = sum(run["events_audited"] for run in runs)
    quarantined = sum(run["events_quarantined"] for run in runs)
    lost = written - audited - quarantined + abs(quarantined - set_aside)
    return {"bad_rows_in": written, "audited": audited, "quarantined": quarantined, "lost": lost}


def _write_lines(folder: Path, good: pa.Table, count: int, dice: random.Random) -> int:
    """Writes a trace of JSON Lines, of which `count` are spoilt; returns how many there are."""
    _begin(folder)
    rows = [_recorded(row) for row in good.to_pylist()]
    lines = [json.dumps(row).encode() for row in rows]
    lines *= -(-count // len(lines)) or 1
    for at in dice.sample(range(len(lines)), count):
        # Neither a line more nor one less: a blank line is no row.
        lines[at] = dice.choice(_OF_LINES)(lines[at], dice).replace(b"\n", b"?").strip(b" \t\r") or b"?"
    (folder / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return len(lines)


def _write_columns(folder: Path, good: pa.Table, count: int, dice: random.Random) -> int:
    """The same in Parquet, where columns have types and a row can be spoilt only within them."""
    _begin(folder)
    rows = good.to_pylist()
    rows = [dict(row) for _ in range(-(-count // len(rows)) or 1) for row in rows]
    for at in dice.sample(range(len(rows)), count):
        _spoil_values(rows[at], dice)
    table = pa.Table.from_pylist(rows, schema=good.schema)
    # Bytes that are no UTF-8 cannot stand in Python's texts: they are put into the column as it is written.
    texts = [b"\xff" if row["topic"] == "no UTF-8" else (row["topic"] or "").encode() for row in rows]
    absent = pa.array([row["topic"] is None for row in rows])
    raw = pa.array(texts, pa.binary(), mask=absent.to_numpy(zero_copy_only=False)).view(pa.string())
    table = table.set_column(table.schema.get_field_index("topic"), "topic", raw)
    pq.write_table(table, folder / "events.parquet", row_group_size=max(len(rows) // 4, 1))
    return len(rows)


def _begin(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "trace.json").write_bytes((_SAMPLE / "trace.json").read_bytes())


def _recorded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A typed row as a recorder writes it."""
    recorded = {name: value for name, value in row.items() if value is not None and name in EVENT_SCHEMA.names}
    if "key" in recorded:
        recorded["key_b64"] = _base64(recorded.pop("key"))
    return recorded


def _base64(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _spoil_values(row: dict[str, Any], dice: random.Random) -> None:
    kind = dice.randrange(4)
    if kind == 0:
        row[dice.choice(_NUMBERS)] = dice.choice((None, -1, -(2**31)))
    elif kind == 1:
        row[dice.choice([name for name in _TEXTS if name in row])] = dice.choice(
            (None, "", "\ufffd", "'; DROP TABLE runs")
        )
    elif kind == 2:
        row["topic"] = "no UTF-8"
    else:
        row.update(dict.fromkeys(row))


def _behind(line: bytes, dice: random.Random) -> bytes:
    return line + dice.choice((line, b"," + line, b"]}", b"\0", b"\xef\xbb\xbf", b"}"))


_OF_LINES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    partial(flipped, bits=(1, 2, 8)), cut, noise, partial(another_value, values=_NO_VALUES),
    partial(repeated_name, values=_NO_VALUES), _behind,
)  # fmt: skip
