"""The traces of a benchmark: one that counts and a small one to warm up on, of the same shape."""

import gzip
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.generate import Shape, note_of
from benchmarks.plan import files_in, log_in
from benchmarks.runs import ROOT
from benchmarks.stored_as import Source
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError

_READ_BYTES = 1 << 20


def rows_in(trace: Path) -> int:
    """How many rows a generated trace has, by the metadata of its Parquet files, or by its lines."""
    if log_in(trace).suffix in (".parquet", ".delta"):
        files = files_in(trace)
        return sum(pq.ParquetFile(file).metadata.num_rows for file in files.parent.glob(files.name))
    return sum(map(_lines_in, log_in(trace).iterdir()))


def _lines_in(file: Path) -> int:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_READ_BYTES), b""))


def require_trace(folder: Path, shape: Shape, source: Source) -> None:
    """Generates a trace, unless it is there already.

    Args:
        folder: of the trace.
        shape: what it looks like.
        source: as what its log is stored.

    Raises:
        UsageError: what is there has another shape or is stored otherwise.
        DispatchAuditError: it could not be generated.
    """
    if not folder.exists():
        _generate(folder, shape, source)
    manifest = folder / "trace.json"
    note = json.loads(manifest.read_text()).get("note") if manifest.is_file() else None
    if note != note_of(shape):
        raise UsageError(f"{folder} is no trace of the wanted shape, {shape}", "name a folder that does not exist yet")
    if log_in(folder).name != f"events.{source}":
        raise UsageError(f"{folder} holds {log_in(folder).name}", "change --source, or name a new folder")


def _generate(folder: Path, shape: Shape, source: Source) -> None:
    # In a process of its own, whose memory must not stand beside those that are measured.
    options = [f"--{field.name.replace('_', '-')}={getattr(shape, field.name)}" for field in fields(shape)]
    command = [sys.executable, "-m", "benchmarks.generate", str(folder.absolute()), *options]
    done = subprocess.run([*command, f"--source={source}"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise DispatchAuditError(f"{folder} could not be generated", "the generator's words stand above")
