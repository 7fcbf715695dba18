"""The result of `validate`, as text and as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import dropped, printable, share
from dispatch_audit.pipeline.run.request import ValidationResult
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow
from dispatch_audit.pipeline.trace.sources import from_here

# Of a row, as text; JSON has all of it.
_RAW_MAX: Final = 400


def print_validation(results: Iterable[ValidationResult], console: Console) -> None:
    """Writes a paragraph for each trace: whether it can be audited, and how many rows would be quarantined."""
    for result in results:
        for line in _lines(result):
            console.print(Text(line), soft_wrap=True)


def json_validation(results: Sequence[ValidationResult]) -> str:
    """Returns one JSON object, without a newline at its end."""
    return json.dumps(
        {
            "usable": all(result.usable for result in results),
            "traces": [
                {
                    "path": result.path,
                    "usable": result.usable,
                    "fault": result.fault or None,
                    "events": result.events_in,
                    "quarantined": result.events_quarantined,
                    "quarantined_by_reason": result.reasons,
                    "first_by_reason": {reason: row._asdict() for reason, row in result.first.items()},
                    "rows": [row._asdict() for row in result.rows],
                    "gaps": result.gaps,
                    "rows_dropped": result.rows_dropped,
                    "profile": result.profile,
                    "judged_as": result.judged_as,
                }
                for result in results
            ],
        },
        indent=2,
        ensure_ascii=True,
    )


def _lines(result: ValidationResult) -> list[str]:
    word = "USABLE" if result.usable else "UNUSABLE"
    refused = f"{result.events_quarantined:,} would be quarantined"
    part = result.events_quarantined / result.events_in if result.events_in else 0.0
    by_frequency = sorted(result.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    return [
        f"{word}  {printable(from_here(result.path))}",
        f"Read    {count(result.events_in, 'event')}, {refused} ({share(part)})",
        *(f"        {reason}: {number:,}{_first(result, reason)}" for reason, number in by_frequency),
        *([f"Lost    {dropped(result.rows_dropped, result.gaps)}"] if result.gaps else []),
        f"Broker  by the rules of profile {result.profile}",
        *([f"        {printable(result.judged_as)}"] if result.judged_as else []),
        *(line for row in result.rows for line in _row(row, result.path)),
    ]


def _first(result: ValidationResult, reason: str) -> str:
    """Returns where the first row of a reason is, and what is wrong with it."""
    row = result.first.get(reason)
    if row is None:
        return ""
    detail = "" if row.detail is None else f": {printable(row.detail)}"
    return f", first in {printable(row.place(result.path))}{detail}"


def _row(row: RefusedRow, path: str) -> Iterator[str]:
    """Yields the lines on a refused row: its place and fault, and the row itself."""
    yield f"{printable(row.place(path))}: {printable(row.fault)}"
    raw = printable(row.raw or "")
    yield f"        {raw if len(raw) <= _RAW_MAX else f'{raw[: _RAW_MAX - 3]}...'}"
