"""The result of `convert`, as text and as JSON."""

import json
from dataclasses import asdict
from shlex import quote

from rich.console import Console
from rich.text import Text

from dispatch_audit.pipeline.convert.request import ConvertResult
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.trace.sources import from_here


def print_conversion(result: ConvertResult, console: Console) -> None:
    """Writes what was converted, and the command that audits it."""
    for line in _lines(result):
        console.print(Text(line), soft_wrap=True)


def json_conversion(result: ConvertResult) -> str:
    """Returns one JSON object, without a newline at its end."""
    return json.dumps(asdict(result), indent=2, ensure_ascii=True)


def _lines(result: ConvertResult) -> list[str]:
    files = "" if result.files is None else f" in {count(result.files, 'file')}"
    kept = f", kept in {result.quarantine}" if result.quarantine else ""
    profile = "" if result.has_manifest else " --profile NAME"
    return [
        f"CONVERTED  {printable(from_here(result.path))}",
        f"Read     {count(result.events_in, 'event')}, {result.events_quarantined:,} refused{kept}",
        f"Written  {count(result.events_converted, 'event')} of {count(result.topics, 'topic')} as "
        f"{'a Delta table' if result.form == 'delta' else 'Parquet'}{files}",
        f"Next     dispatch-audit audit {quote(from_here(result.trace))}{profile} --out TABLES",
    ]
