"""Finds the file and the line of the event that completes a finding.

The tables name findings by `seq` and recorder; an editor and a code-scanning page open lines. Only local JSON Lines
logs have lines.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dispatch_audit.pipeline.report.summary import Finding
from dispatch_audit.pipeline.trace.lines.open_lines import DAMAGED, open_lines
from dispatch_audit.pipeline.trace.sources import JSON_ENDINGS, Log, Trace, from_here

# Searching a GB takes 1.2 s of one core as plain text and 3.1 s as gzip, of which the compressed size, down to a tenth,
# is counted here. Samples are far smaller; users of larger logs read the tables.
_SEARCHED_BYTES_MAX = 256 << 20

_SEQ = re.compile(rb'"seq"\s*:\s*(\d+)')

_Row = tuple[str, int, str | None]
"""Topic, seq and recorder; several recorders of one trace may use the same seq."""


@dataclass(frozen=True)
class SourceLocation:
    """File and line of a row of a trace.

    Attributes:
        path: of the log, relative to the working directory if it is below that; its name if only Spark can reach it.
        line: counted from 1; None where it is not known.
        local: whether the path is one of this machine.
    """

    path: str
    line: int | None = None
    local: bool = True

    @property
    def uri(self) -> str:
        """The path as a URI; relative if the path is."""
        if not self.local:
            return self.path
        return Path(self.path).as_uri() if Path(self.path).is_absolute() else quote(self.path)


def location_of(path: str) -> SourceLocation:
    """Returns the location of a trace, which need not be one that can be opened."""
    local = "://" not in path
    return SourceLocation(from_here(path) if local else path, local=local)


def source_locations(trace: Trace, findings: Sequence[Finding]) -> list[SourceLocation]:
    """Returns the location of each finding, in their order; without a known line, the first log of the trace."""
    first = trace.logs[0]
    anywhere = SourceLocation(from_here(first.path) if first.local else first.path, local=first.local)
    wanted = {_row(finding) for finding in findings}
    found = _found(trace.logs, wanted) if wanted else {}
    return [found.get(_row(finding), anywhere) for finding in findings]


def _row(finding: Finding) -> _Row:
    return finding.topic, finding.seq, finding.broker


def _found(logs: Sequence[Log], wanted: set[_Row]) -> Mapping[_Row, SourceLocation]:
    files = [file for log in logs if log.local and log.kind == "json" for file in _files(Path(log.path))]
    if sum(file.stat().st_size for file in files) > _SEARCHED_BYTES_MAX:
        return {}
    seqs = {b"%d" % seq for _, seq, _ in wanted}
    found: dict[_Row, SourceLocation] = {}
    for file in files:
        for row, line in _rows(file, seqs):
            # Tables that were written before the column `broker` existed name no recorder.
            for match in {row, (*row[:2], None)} & wanted:
                found.setdefault(match, SourceLocation(from_here(str(file)), line))
    return found


def _files(path: Path) -> list[Path]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [file for file in files if file.is_file() and file.name.endswith(JSON_ENDINGS)]


def _rows(file: Path, seqs: set[bytes]) -> Iterator[tuple[_Row, int]]:
    """Yields the rows of a file that have one of the seqs, each with its line."""
    try:
        with open_lines(file) as lines:
            yield from _rows_of(lines, seqs)
    except DAMAGED:
        # The log was audited, so it is truncated and the settings allow that, or it was removed since.
        return


def _rows_of(lines: Iterable[bytes], seqs: set[bytes]) -> Iterator[tuple[_Row, int]]:
    for number, line in enumerate(lines, start=1):
        seq = _SEQ.search(line)
        if seq is None or seq[1] not in seqs:
            continue
        try:
            row = json.loads(line)
        except ValueError:
            continue  # a row that was refused
        if isinstance(row, dict) and isinstance(row.get("topic"), str) and isinstance(row.get("seq"), int):
            broker = row.get("broker")
            yield (row["topic"], row["seq"], broker if isinstance(broker, str) else None), number
