"""Finds the traces that the TRACE arguments of the command line name, with their logs and manifests.

Paths of this machine and of object stores are searched here, without Spark, for logs and a manifest. Sources that only
Spark can reach are recognised by their names: another URI with the ending of a log is that log (globs allowed), any
other URI is a Delta table, and `catalog.schema.table` is a table. Such a source needs a profile.

Source: TRACE_FORMAT, "A trace".
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse

from dispatch_audit.pipeline.errors import DispatchAuditError, TraceError, UsageError
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath, store_path
from dispatch_audit.pipeline.trace.line_limit import LINE_BYTES_MAX
from dispatch_audit.pipeline.trace.manifest import (
    FILE_NAME,
    Manifest,
    NoManifestError,
    manifest_in,
    manifest_without_file,
)
from dispatch_audit.pipeline.trace.own_tables import is_own_table
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange

LogKind = Literal["json", "parquet", "delta", "table"]

LOG_NAMES = ("messages", "acks", "consumers", "stats", "events")
JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
PARQUET_ENDING = ".parquet"
_OF_LINES = ", ".join(JSON_ENDINGS)
# Other endings of files with one JSON object a line.
_PERHAPS_LINES = (".json", ".ndjson", ".log", ".txt")

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")
_TABLE = re.compile(r"^\w+\.\w+\.\w+$")
SEPARATOR = ", "
"""Between the names in a `Trace.path`."""
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True)
class Log:
    """One log of a trace.

    Attributes:
        kind: decides how it is read.
        path: a file, a folder, a URI, or the name of a table.
        local: whether the path is one of this machine; such a path is never a glob.
        store: the path, if it is in a store that workers reach.
    """

    kind: LogKind
    path: str
    local: bool = True
    store: StorePath | None = None

    @property
    def glob(self) -> str:
        """The path for Spark, which takes every path for a glob."""
        return self.path if self.place is None else glob_of(self.path)

    @property
    def place(self) -> AnyPath | None:
        """Where workers find it; None: only Spark finds it."""
        return Path(self.path) if self.local else self.store


@dataclass(frozen=True)
class Trace:
    """One trace: logs that belong together, and the description of their broker.

    Attributes:
        manifest: of `trace.json`, or of the profile that replaces it.
        path: the folder, or the names of the logs where there is none, or of several folders; for messages, and to
            find the trace again.
        logs: at least one, in the order of their names.
        seqs: the rows that belong to the trace.
        line_bytes_max: the longest line that is read.
    """

    manifest: Manifest
    path: str
    logs: tuple[Log, ...]
    seqs: SeqRange = ALL
    line_bytes_max: int = LINE_BYTES_MAX


class UnusableTrace(NamedTuple):
    """A trace that cannot be audited.

    Attributes:
        path: as a message names it.
        error: why not, with the next step.
    """

    path: str
    error: TraceError


def glob_of(path: str) -> str:
    """Returns the glob that only this path matches."""
    return _GLOB_CHARACTERS.sub(r"\\\1", path)


def from_here(path: str) -> str:
    """Returns a path relative to the working directory, so that a sample has the same name in every checkout.

    A path that lies elsewhere, a URI and the name of a table stay as they are.
    """
    here = Path.cwd()
    return SEPARATOR.join(
        str(Path(part).relative_to(here)) if Path(part).is_relative_to(here) else part for part in places_in(path)
    )


def places_in(path: str) -> list[str]:
    """Returns the places that a `Trace.path` names."""
    return [path] if os.path.lexists(path) else path.split(SEPARATOR)


def open_traces(
    arguments: Sequence[str | Path], profile: str | None = None, unusable: list[UnusableTrace] | None = None
) -> list[Trace]:
    """Returns the traces that `arguments` name, in their order.

    A folder with logs is a trace, and so is each sub-folder with a `trace.json` of a folder without logs.
    Logs that are named one by one form one trace if their manifest would be the same file; tables and URIs
    form one trace.

    Args:
        arguments: folders, logs, tables.
        profile: replaces a missing manifest.
        unusable: gets each trace that cannot be opened, if another one can; None: the first error is raised.

    Raises:
        UsageError: a path does not exist, has no manifest and no profile was given, or holds tables of an audit.
        TraceError: there are no logs, one is of an unknown kind, or a manifest cannot be read.
    """
    failed: list[UnusableTrace] = []
    raised: list[DispatchAuditError] = []
    # The inner dict keeps the order and drops a log that is named twice.
    logs_by_home: dict[AnyPath | None, dict[Log, None]] = {}
    for argument in [found for given in arguments for found in _traces_in(_plain(str(given)))]:
        with _noted(failed, raised, argument):
            for home, log in _readable(argument):
                logs_by_home.setdefault(home, {})[log] = None
    traces: list[Trace] = []
    for home, logs in logs_by_home.items():
        with _noted(failed, raised, SEPARATOR.join(log.path for log in logs) if home is None else str(home)):
            traces.append(_trace(home, tuple(logs), profile))
    if failed and (unusable is None or not traces):
        raise raised[0]
    if unusable is not None:
        unusable += failed
    return traces


@contextmanager
def _noted(unusable: list[UnusableTrace], raised: list[DispatchAuditError], path: str) -> Iterator[None]:
    try:
        yield
    except TraceError as error:
        unusable.append(UnusableTrace(path, error))
        raised.append(error)
    except NoManifestError as error:
        # Alone it makes the call wrong; among others it is one that cannot be audited.
        unusable.append(UnusableTrace(path, TraceError(error.args[0], error.way_out)))
        raised.append(error)


def _trace(home: AnyPath | None, logs: tuple[Log, ...], profile: str | None) -> Trace:
    if home is None:
        names = SEPARATOR.join(log.path for log in logs)
        return Trace(manifest_without_file(names, profile), names, logs)
    return Trace(manifest_in(home, profile), str(home), logs)


def _plain(argument: str) -> str:
    """Returns the path of a `file:` URI, or else the argument."""
    return unquote(urlparse(argument).path) if argument.startswith("file:/") else argument


def _place(argument: str) -> AnyPath | None:
    """Returns the path that an argument names; None: it is a URI that only Spark reaches."""
    stored = store_path(argument)
    if stored or _URI.match(argument):
        return stored
    path = Path(argument)
    # As another working directory would name it.
    return path.resolve() if ".." in path.parts else path.absolute()


def _traces_in(argument: str) -> list[str]:
    """Returns the traces in a folder that is no trace itself, or else the argument."""
    folder = _place(argument)
    if isinstance(folder, StorePath) and folder.is_glob:
        # A shell expands those of this machine.
        if matching := folder.matching():
            return [str(path) for path in matching]
        raise UsageError(f"nothing matches {argument}", "check the name")
    try:
        if folder is None or not folder.is_dir() or _is_delta(folder):
            return [argument]
        children = _children(folder)
        if any(_is_log(child) or child.name.endswith(PARQUET_ENDING) for child in children):
            return [argument]
        return [str(child) for child in children if (child / FILE_NAME).is_file()] or [argument]
    except OSError:
        return [argument]  # `_readable` says why


def _readable(argument: str) -> list[tuple[AnyPath | None, Log]]:
    """Returns the logs of `_logs_of`, or raises why they cannot be read."""
    try:
        found = list(_logs_of(argument))
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename}: {error.strerror}", "check its name and its permissions"
        ) from None
    for _, log in found:
        # Python keeps bytes of a name that are not text as lone surrogates, which Spark and Arrow refuse.
        if any("\ud800" <= character <= "\udfff" for character in log.path):
            raise TraceError(f"the name of {log.path!a} is not UTF-8", "rename it")
    return found


def _logs_of(argument: str) -> Iterator[tuple[AnyPath | None, Log]]:
    """Yields each log that `argument` names, with the folder of its manifest; None: there is none for it."""
    path = _place(argument)
    if path is None:
        yield None, Log(_kind_by_name(argument) or "delta", argument, local=False)
    elif path.is_dir():
        yield from _logs_of_folder(path)
    elif path.exists():
        yield path.parent, _log(_kind_of_file(path), path)
    elif _TABLE.match(argument) and _kind_by_name(argument) is None:
        yield None, Log("table", argument, local=False)
    else:
        raise UsageError(f"there is no trace at {argument}", "name a folder, a log or catalog.schema.table")


def _log(kind: LogKind, path: AnyPath) -> Log:
    stored = path if isinstance(path, StorePath) else None
    return Log(kind, str(path), local=stored is None, store=stored)


def _children(folder: AnyPath) -> list[AnyPath]:
    return sorted(folder.iterdir())


def _logs_of_folder(folder: AnyPath) -> Iterator[tuple[AnyPath, Log]]:
    if is_own_table(folder):
        raise UsageError(f"{folder} is a table of an audit, and no log", "pass the trace that was audited")
    children = _children(folder)
    named = [child for child in children if _is_log(child)]
    if named and not _is_delta(folder):
        for child in named:
            yield folder, _log_at(child)
    elif _is_delta(folder) or any(child.name.endswith(PARQUET_ENDING) for child in children):
        # The folder is one log; its manifest may be in it or beside it.
        home = folder if (folder / FILE_NAME).exists() else folder.parent
        yield home, _log_at(folder)
    elif any(map(is_own_table, children)):
        raise UsageError(f"{folder} has tables of an audit, and no logs", "pass the trace that was audited")
    else:
        names = ", ".join(f"{name}*" for name in LOG_NAMES)
        raise TraceError(f"{folder} has no logs", f"name them {names}, or pass another folder")


def _is_log(path: AnyPath) -> bool:
    """Whether something in the folder of a trace is a log of it, by its name; a table of an audit never is."""
    return path.name.startswith(LOG_NAMES) and not is_own_table(path)


def _log_at(path: AnyPath) -> Log:
    if not path.is_dir():
        return _log(_kind_of_file(path), path)
    if _is_delta(path):
        return _log("delta", path)
    below: list[AnyPath] = sorted(path.rglob("*"))
    kinds = {kind for file in below if (kind := _kind_by_name(file.name)) is not None}
    if len(kinds) != 1:
        found = "both JSON Lines and Parquet files" if kinds else "no log files"
        raise TraceError(f"{path} has {found}", f"put only {_OF_LINES} files or only .parquet files in it")
    kind = kinds.pop()
    if kind == "parquet":
        # Besides the manifest every file must be a log, because its writer may expect that it is read.
        for file in (file for file in below if file.name != FILE_NAME and _is_visible(file, path)):
            _kind_of_file(file)
    return _log(kind, path)


def files_of(log: Log) -> list[AnyPath]:
    """Returns the files of a log of JSON Lines or Parquet that workers reach, in the order of their names."""
    path = log.place
    assert path is not None, "Spark finds the files of other logs"
    if not path.is_dir():
        return [path]
    below: list[AnyPath] = sorted(path.rglob("*"))
    return [file for file in below if _kind_by_name(file.name) == log.kind and _is_visible(file, path)]


def _is_visible(file: Any, folder: AnyPath) -> bool:
    """Whether a file below a folder is part of a log, as Spark has it: hidden ones are not."""
    hidden = any(name.startswith(("_", ".")) and "=" not in name for name in file.relative_to(folder).parts)
    return file.is_file() and not hidden


def _is_delta(path: AnyPath) -> bool:
    return path.is_dir() and (path / "_delta_log").is_dir()


def _kind_of_file(path: AnyPath) -> LogKind:
    kind = _kind_by_name(path.name)
    if kind is None:
        # Not skipped, because a verdict on half a trace would be wrong.
        raise TraceError(f"{path} is not a log", f"logs end in {_OF_LINES} or .parquet; {_way_out(path)}")
    if not path.is_file():
        raise TraceError(f"{path} is not a regular file, but a pipe, a device or a broken link", "write it to a file")
    return kind


def _way_out(path: AnyPath) -> str:
    if path.suffix in _PERHAPS_LINES:
        return "rename it if each line is one JSON object"
    return "write each of its rows as one JSON object a line, as docs/TRACE_FORMAT.md describes"


def _kind_by_name(name: str) -> Literal["json", "parquet"] | None:
    if name.endswith(JSON_ENDINGS):
        return "json"
    return "parquet" if name.endswith(PARQUET_ENDING) else None
