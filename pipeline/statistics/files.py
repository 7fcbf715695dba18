"""Reads the inputs of a diagnosis: files, standard input, folders of `record-stats`, and folders of dumps."""

import gzip
import json
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.statistics.diagnose import STANDARD_INPUT, Input
from dispatch_audit.pipeline.statistics.reading.text import BYTES_MAX, decoded, too_large
from dispatch_audit.pipeline.storage.store_path import AnyPath, any_path

STDIN: Final = "-"
_MANIFEST: Final = "trace.json"
_SNAPSHOT: Final = b'"snapshot"'
_GZIP: Final = b"\x1f\x8b"
_TOPIC: Final = re.compile(r"(?:non-)?persistent://")
_FILES_MAX: Final = 10_000


def inputs_of(paths: Sequence[str], stdin: BinaryIO) -> Iterator[Input]:
    """Yields the inputs that arguments name; each is read only when it is asked for.

    Args:
        paths: files, folders, or `-` for standard input.
        stdin: standard input.

    Raises:
        UsageError: a path does not exist, or `-` is given twice.
        TraceError: an input cannot be read, is too large, or is no text.
    """
    if paths.count(STDIN) > 1:
        raise UsageError("- is standard input, which can be read once", "pass it once")
    for given in paths:
        path = any_path(given)
        if _TOPIC.match(given):
            commands = f"pulsar-admin topics stats {given} > stats.json; dispatch-audit diagnose stats.json"
            raise UsageError(f"{given} is a topic and no file", f"write its statistics into one: {commands}")
        if given == STDIN:
            data = _bounded(stdin, STANDARD_INPUT)
            yield Input(STANDARD_INPUT, decoded(data, STANDARD_INPUT), time.time_ns() // 1_000_000)
        elif path.is_dir():
            yield from _of_folder(path)
        elif path.exists():
            yield _of_file(path)
        else:
            raise UsageError(f"{path} does not exist", "name a file with statistics, or - for standard input")


def _of_file(path: AnyPath) -> Input:
    try:
        with path.open("rb") as file:
            data = _bounded(file, str(path))
        if data.startswith(_GZIP):
            with path.open("rb") as packed, gzip.open(packed) as unpacked:
                data = _bounded(unpacked, str(path))
        modified_ms = int(path.stat().st_mtime * 1000)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", "pass it again") from None
    return Input(str(path), decoded(data, str(path)), modified_ms)


def _bounded(file: BinaryIO | gzip.GzipFile, name: str) -> bytes:
    data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise too_large(name)
    return data


def _of_folder(folder: AnyPath) -> Iterator[Input]:
    """Yields the snapshots of a recording, or the files of a folder of dumps."""
    manifest = folder / _MANIFEST
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    files = [path for path in files if path != manifest]
    if not files or len(files) > _FILES_MAX:
        held = "no files" if not files else f"more than {_FILES_MAX:,} files"
        raise TraceError(f"{folder} holds {held}", "pass a folder of record-stats, or files with statistics")
    if not manifest.exists():
        yield from map(_of_file, files)
        return
    version = _version(manifest)
    lines = [line for path in files for line in _snapshots(path)]
    if not lines:
        raise TraceError(f"{folder} is a trace without snapshots", "audit it: dispatch-audit audit")
    yield Input(str(folder), b"\n".join(lines).decode(errors="replace"), version=version)


def _snapshots(path: AnyPath) -> Iterator[bytes]:
    """Yields the lines with snapshots; of a compressed log that is cut off, those before the cut."""
    size = 0
    try:
        with path.open("rb") as packed, gzip.open(packed) if path.suffix == ".gz" else packed as file:
            for line in file:
                if _SNAPSHOT in line:
                    size += len(line)
                    if size > BYTES_MAX:
                        raise too_large(str(path))
                    yield line
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}", "pass it again") from None


def _version(manifest: AnyPath) -> str | None:
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    version = found.get("pulsar_version") if isinstance(found, dict) else None
    return version if isinstance(version, str) else None
