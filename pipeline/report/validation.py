"""What a reading without a replay showed, for a person."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from pipeline.report.words import count, printable, share
from pipeline.request import ValidationResult


def print_validation(results: Iterable[ValidationResult], console: Console) -> None:
    """Writes a paragraph for each trace: whether it can be audited, and what would be set aside."""
    for result in results:
        for line in _lines(result):
            console.print(Text(line), soft_wrap=True)


def _lines(result: ValidationResult) -> list[str]:
    word = "USABLE" if result.usable else "UNUSABLE"
    refused = f"{result.events_quarantined:,} would be quarantined"
    part = result.events_quarantined / result.events_in if result.events_in else 0.0
    by_frequency = sorted(result.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    return [
        f"{word}  {printable(result.path)}",
        f"Read    {count(result.events_in, 'event')}, {refused} ({share(part)})",
        *(f"        {reason}: {number:,}" for reason, number in by_frequency),
        f"Broker  by the rules of profile {result.profile}",
    ]
