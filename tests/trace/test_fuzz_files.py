"""Files of every kind of damage: each ends in a verdict or in one line that names the file, by both ways of reading."""

import faulthandler
import gzip
import io
import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from arrow_rows import batch_of
from conftest import MANIFEST
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from pyspark.sql import SparkSession
from reading import read
from test_row_checks import PLAIN
from trace_rows import FLOW, JOIN, TOPIC

from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.packing.pack import COLUMNS
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import Settings, load_settings
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.shares import Share

Validate = Callable[[Path], "subprocess.CompletedProcess[str]"]

_ROWS = [{**FLOW, "seq": seq} for seq in range(1, 31)]
_LINES = "".join(json.dumps(row) + "\n" for row in _ROWS).encode()
_GZIP = gzip.compress(_LINES, mtime=0)
_ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress(_LINES)


def _parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def _table(*columns: tuple[str, pa.Array]) -> pa.Table:
    table = pa.Table.from_batches([batch_of(_ROWS)])
    for name, column in columns:
        known = name in table.schema.names and len(columns) == 1
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, column) if known else table.append_column(name, column)
    return table


_PARQUET = _parquet(_table())
_NUMBERS = pa.array(range(len(_ROWS)), pa.int64())


def _texts(value: bytes) -> pa.Array:
    """A column of texts with these bytes, UTF-8 or not."""
    return pa.array([value] * len(_ROWS), pa.binary()).view(pa.string())


def folder_of(tmp_path: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
    return tmp_path


def lenient() -> Settings:
    """Settings under which nothing is too much."""
    settings = load_settings()
    trace = settings.trace.model_copy(update={"quarantine_ratio_max": 1.0, "truncated_log": "quarantine"})
    return settings.model_copy(update={"trace": trace})


def request(folder: Path, target: object = "") -> AuditRequest:
    return AuditRequest((str(folder),), str(target), None, lenient())


@pytest.fixture(scope="module")
def validated(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> Validate:
    """Validates a trace under settings with which nothing is too much.

    The workers of both engines read files alike. What only Spark reads, and errors on their way through Spark, are
    below and in `tests/trace/test_trace_survey.py`.
    """
    config = tmp_path_factory.mktemp("lenient") / "audit.toml"
    config.write_text('[trace]\nquarantine_ratio_max = 1.0\ntruncated_log = "quarantine"\n')
    return lambda folder: run_embedded(
        "validate", folder, "--no-replay", "--config", config, "--quiet", "--format", "json"
    )


def counted(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """What a validation says of its one trace."""
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)["traces"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"events.jsonl": b""}, "the trace is empty"),
        ({"events.jsonl.gz": b""}, "the trace is empty"),
        ({"events.jsonl.gz": gzip.compress(b"")}, "the trace is empty"),
        ({"events.jsonl.gz": _GZIP + b"garbage"}, "cannot read .*events.jsonl.gz: "),
        ({"events.jsonl.gz": _GZIP[:-6] + b"\0" + _GZIP[-5:]}, "cannot read .*events.jsonl.gz: .*CRC"),
        ({"events.jsonl.zst": _ZSTD + b"garbage"}, "cannot read .*events.jsonl.zst: "),
        ({"events.jsonl.zst": _ZSTD[:-1] + b"\0"}, "cannot read .*events.jsonl.zst: .*checksum"),
        ({"events.parquet": b""}, "cannot read .*events.parquet: .*0 bytes"),
        ({"events.parquet": _PARQUET[:-1]}, "cannot read .*events.parquet: .*not a parquet file"),
        ({"events.parquet": _PARQUET[: len(_PARQUET) // 2]}, "cannot read .*events.parquet: .*not a parquet file"),
        ({"events.parquet": b"PAR1" + _PARQUET[-1000:]}, "cannot read .*events.parquet: .*smaller than the size"),
        ({"events.jsonl": _LINES, "messages.parquet": b"PAR1 and no more"}, "cannot read .*messages.parquet: "),
        ({"events.parquet": _parquet(_table(("seq", _NUMBERS.cast(pa.float64()))))}, "column seq has type double, but"),
        (
            {"events/a.parquet": _PARQUET, "events/b.parquet": _parquet(_table(("seq", _texts(b"1"))))},
            "events: column seq has type string, but format 1 has bigint",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(
    validated: Validate, tmp_path: Path, files: Mapping[str, bytes], why: str
) -> None:
    done = validated(folder_of(tmp_path, files))
    assert (done.returncode, done.stdout) == (3, "")
    # One line, which ends in what to do.
    assert re.fullmatch(f"dispatch-audit: error: .*{why}.*; (check|copy|write) .+\n", done.stderr)


# The check sum of an archive is not whole, or a second member of it.
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("events.jsonl.gz", _GZIP[:-4]),
        ("events.jsonl.gz", _GZIP + _GZIP[:-9]),
        ("events.jsonl.zst", _ZSTD[:-2]),
        ("events.jsonl.zst", _ZSTD + _ZSTD[:-9]),
    ],
)
def test_an_archive_that_ends_too_early_is_read_up_to_there(
    validated: Validate, tmp_path: Path, name: str, content: bytes
) -> None:
    found = counted(validated(folder_of(tmp_path, {name: content})))
    assert found["events"] > len(_ROWS)
    assert found["quarantined_by_reason"] == {"cut_off": 1}


@pytest.mark.parametrize(
    "columns",
    [
        [("SEQ", _NUMBERS)],
        [("x", _NUMBERS), ("X", _NUMBERS)],
        [("an_addition", _NUMBERS.cast(pa.timestamp("ns")))],
        [("an_addition", _NUMBERS.cast(pa.time64("us")))],
    ],
    ids=["another case", "names that differ in case", "nanoseconds", "a time of day"],
)
def test_columns_that_the_format_does_not_know_may_be_of_any_type(
    validated: Validate, tmp_path: Path, columns: list[tuple[str, pa.Array]]
) -> None:
    found = counted(validated(folder_of(tmp_path, {"events.parquet": _parquet(_table(*columns))})))
    assert (found["events"], found["quarantined"]) == (len(_ROWS), 0)


def test_texts_that_are_no_utf8_are_read_as_in_json(tmp_path: Path) -> None:
    names = ("topic", "subscription", "event", "consumer_name", "producer_name", "batch_keys")
    whole = _table().slice(0, 1)
    tables = []
    for name in names:
        text = _texts(b"a\xff")[:1]
        column = pa.ListArray.from_arrays([0, 1], text) if name == "batch_keys" else text
        tables.append(whole.set_column(whole.schema.get_field_index(name), name, column))
    folder = folder_of(
        tmp_path, {f"events/{name}.parquet": _parquet(table) for name, table in zip(names, tables, strict=True)}
    )
    (trace,) = open_traces([folder])
    good, refused = read(trace)
    assert [[row[name] for row in good].count("a\ufffd") for name in ("consumer_name", "producer_name")] == [1, 1]
    assert ["a\ufffd"] in [row["batch_keys"] for row in good]
    assert sorted((row["refused"], row["detail"]) for row in refused) == [
        ("impossible_value", "subscription = a\ufffd"),
        ("impossible_value", "topic = a\ufffd"),
        ("unknown_event", "event = a\ufffd"),
    ]


@pytest.mark.parametrize("inside", ["events/trace.json", "trace.json"])
def test_a_manifest_may_lie_among_parquet_files(tmp_path: Path, inside: str) -> None:
    log = "events/a.parquet" if "/" in inside else "a.parquet"
    folder = folder_of(tmp_path, {log: _PARQUET, inside: b"{}"})
    (trace,) = open_traces([folder])
    assert len(read(trace)[0]) == len(_ROWS)


def test_another_file_among_parquet_files_is_not_passed_over(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"events/a.parquet": _PARQUET, "events/_SUCCESS": b"", "events/.b.crc": b""})
    open_traces([folder])
    (folder / "events" / "day=1").mkdir()
    (folder / "events" / "day=1" / "b.parq").write_bytes(_PARQUET)
    with pytest.raises(TraceError, match=r"events/day=1/b\.parq is not a log"):
        open_traces([folder])


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "acks.jsonl")


def _dangling(folder: Path) -> None:
    (folder / "acks.jsonl").symlink_to("nowhere.jsonl")


def _loop(folder: Path) -> None:
    (folder / "acks.jsonl").symlink_to("acks.jsonl")


def _no_text(folder: Path) -> None:
    (folder / os.fsdecode(b"acks\xff.jsonl")).write_bytes(_LINES)


@pytest.mark.parametrize("made", [_pipe, _dangling, _loop, _no_text])
def test_what_is_no_file_of_a_readable_name_is_refused(tmp_path: Path, made: Callable[[Path], None]) -> None:
    folder = folder_of(tmp_path, {"events.jsonl": _LINES})
    made(folder)
    with pytest.raises(TraceError, match=r"acks.*is no") as raised:
        open_traces([folder])
    assert raised.value.way_out
    str(raised.value).encode()


def test_a_name_that_the_system_refuses_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"cannot read /.*x+: .*long"):
        open_traces(["x" * 10_000])


# Neither is 1, with which a process ends at an error of another kind.
READ, REFUSED = 0, 2


def _read_each(files: Sequence[str], answers: int) -> None:
    """Reads files, and writes a byte for each: whether it could be read."""
    os.close(2)
    # That it aborts is an outcome like the others; pytest's handler would print its stack in the middle of the gate.
    faulthandler.disable()
    for file in files:
        try:
            list(FilePart(Share("parquet", file, file, 0, 1)).read(COLUMNS, 1_000))
        except TraceError:
            os.write(answers, bytes([REFUSED]))
        else:
            os.write(answers, bytes([READ]))
    os._exit(0)


def outcomes(files: Sequence[str]) -> list[int]:
    """Of each file `READ`, `REFUSED`, or how the process ended that read it.

    In a process of its own: pyarrow may abort, which `audit` takes for a reason to leave the file to Spark. Another one
    goes on after the file, as each costs a copy of the memory maps of the tests.
    """
    found: list[int] = []
    while len(found) < len(files):
        ours, theirs = os.pipe()
        process = get_context("fork").Process(target=_read_each, args=(files[len(found) :], theirs))
        process.start()
        os.close(theirs)
        with os.fdopen(ours, "rb") as answers:
            found += answers.read()
        process.join()
        if process.exitcode:
            found.append(process.exitcode)
    return found


def _spoilt(content: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.1:
        return content[: dice.randrange(len(content))]
    spoilt = bytearray(content)
    for _ in range(dice.choice((1, 1, 4))):
        spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
    return bytes(spoilt)


@pytest.mark.heavy
def test_damaged_parquet_is_read_or_refused(tmp_path: Path) -> None:
    dice = random.Random("damaged")
    table = pa.Table.from_batches([batch_of(PLAIN)])
    files = [_parquet(table, compression=compression) for compression in ("none", "snappy")]
    paths = [tmp_path / f"{number}.parquet" for number in range(150)]
    for path in paths:
        path.write_bytes(_spoilt(dice.choice(files), dice))
    ends = outcomes([str(path) for path in paths])
    assert len(ends) == len(paths)
    assert set(ends) <= {READ, REFUSED, -6, -11}
    assert ends.count(READ) > 10
    assert ends.count(REFUSED) > 10


def test_a_file_with_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    content = _parquet(_table(("an_addition", _NUMBERS)), compression="none")
    path = tmp_path / "a.parquet"
    path.write_bytes(content.replace(b"an_addition", b"an_additio\xff"))
    with pytest.raises(TraceError, match=r"cannot read .*a\.parquet: "):
        list(FilePart(Share("parquet", str(path), str(path), 0, 1)).read(COLUMNS, 1_000))


@pytest.mark.spark
def test_a_file_that_ends_a_worker_is_an_unreadable_one(spark: SparkSession, tmp_path: Path) -> None:
    # The physical type of a column is none of Parquet's, at which pyarrow aborts.
    whole = _parquet(_table(), compression="none")
    spoilt = whole.replace(b"\x1c\x15\x04\x19\x35", b"\x1c\x15\x5d\x19\x35", 1)
    assert spoilt != whole
    folder = folder_of(tmp_path / "trace", {"events/a.parquet": spoilt})
    assert outcomes([str(folder / "events" / "a.parquet")]) == [-6]
    with pytest.raises(TraceError, match=r"cannot read .*a\.parquet: ") as raised:
        audit(spark, request(folder, tmp_path / "out"), lambda _: None)
    assert raised.value.way_out


@pytest.mark.spark
def test_names_are_names_and_nothing_is_executed(spark: SparkSession, tmp_path: Path) -> None:
    nasty = (
        "'; DROP TABLE runs; --",
        "../../../x",
        "<script>alert(1)</script>",
        "$(touch x)`touch y`",
        "\x1b[2J\x07\u202e",
        'a`b"c\\d${e}%s{0}',
        "\n\t\r",
        "x" * 5_000,
    )
    rows = [
        {**JOIN, "seq": 1 + at, "topic": TOPIC + name, "subscription": name, "consumer_name": name, "consumer": at}
        for at, name in enumerate(nasty)
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    folder = folder_of(tmp_path / "in", {"events.jsonl": content})
    before = {path for path in tmp_path.rglob("*") if "out" not in path.parts}
    here = set(Path.cwd().iterdir())
    result = audit(spark, request(folder, tmp_path / "out"), lambda _: None)
    consumers = DeltaTable(tmp_path / "out" / "consumers").to_pyarrow_table().to_pylist()
    found = {(row["topic"], row["subscription"], row["consumer_name"]) for row in consumers}
    assert found == {(TOPIC + name, name, name) for name in nasty}
    (run,) = DeltaTable(tmp_path / "out" / "runs").to_pyarrow_table().to_pylist()
    assert (run["run_key"], run["events_in"], run["events_audited"]) == (result.run_keys[0], len(nasty), len(nasty))
    assert {path for path in tmp_path.rglob("*") if "out" not in path.parts} == before
    assert set(Path.cwd().iterdir()) - here <= {Path.cwd() / "spark-warehouse"}
