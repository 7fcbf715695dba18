"""Says when a dump was taken: from the name of its file, from its content, or from the age of the file.

The statistics of a broker do not have the time at which they were taken. A time without a zone is taken for UTC: it
orders dumps, but proves no duration up to a timestamp of the broker. Nor does the age of a file, which a copy changes.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final, Literal

TimeSource = Literal["name", "content", "age", "none"]

_COMPACT: Final = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:.-]?(\d\d)[:.-]?(\d\d)(?:[.,](\d{1,6}))?(Z\b)?")
_ISO: Final = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?(?:Z\b|[+-]\d\d:?\d\d\b)")
_HTTP: Final = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d? [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d GMT")
_DATE: Final = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2} +\d\d? \d\d:\d\d:\d\d) UTC (20\d\d)")
_EPOCH: Final = re.compile(r"(?<!\d)(1[5-9]\d{8}|2\d{9})(\d{3})?(?!\d)")


@dataclass(frozen=True)
class Clock:
    """When a dump was taken.

    Attributes:
        at_ms: milliseconds since 1970 UTC; None: not known.
        source: what says so.
        exact: whether it can be compared with timestamps of the broker.
    """

    at_ms: int | None
    source: TimeSource
    exact: bool = False

    @property
    def is_said(self) -> bool:
        """Whether the name or the text says it; the age of a file does not, because a copy changes it."""
        return self.at_ms is not None and self.source in ("name", "content")


UNKNOWN: Final = Clock(None, "none")


def clock_of(name: str, before: str, modified_ms: int | None) -> Clock:
    """Returns when a dump was taken.

    Args:
        name: of the file, without its folder.
        before: the text in front of the document.
        modified_ms: when the file was last written; None: not known.
    """
    if (at := _epoch(name)) is not None:
        return Clock(at, "name", exact=True)
    if match := _COMPACT.search(name):
        return Clock(_ms(match), "name", exact=match[8] is not None)
    if (at := _in_content(before)) is not None:
        return Clock(at, "content", exact=True)
    return UNKNOWN if modified_ms is None else Clock(modified_ms, "age")


def _ms(match: re.Match[str]) -> int | None:
    try:
        year, month, day, hour, minute, second = (int(match[at]) for at in range(1, 7))
        found = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(found.timestamp() * 1000) + int((match[7] or "0").ljust(3, "0")[:3])


def _epoch(name: str) -> int | None:
    match = _EPOCH.search(name)
    return None if match is None else int(match[1]) * 1000 + int(match[2] or 0)


def _in_content(before: str) -> int | None:
    """The last time with its zone in a text; None: there is none."""
    found: list[tuple[int, datetime]] = []
    try:
        found += [(match.start(), _parsed_iso(match[0])) for match in _ISO.finditer(before)]
        found += [(match.start(), parsedate_to_datetime(match[0])) for match in _HTTP.finditer(before)]
        for match in _DATE.finditer(before):
            parsed = datetime.strptime(f"{' '.join(match[1].split())} {match[2]}", "%b %d %H:%M:%S %Y")
            found.append((match.start(), parsed.replace(tzinfo=timezone.utc)))
    except ValueError:
        return None
    return int(max(found)[1].timestamp() * 1000) if found else None


def _parsed_iso(text: str) -> datetime:
    head, _, zone = re.sub(r"\s?(Z|[+-]\d\d:?\d\d)$", r"|\1", text.replace(" ", "T", 1).replace(",", ".")).partition(
        "|"
    )
    whole, _, fraction = head.partition(".")
    zone = "+00:00" if zone == "Z" else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    return datetime.fromisoformat(f"{whole}.{fraction[:6].ljust(6, '0')}{zone}")
