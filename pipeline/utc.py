"""Converts the times of a trace, microseconds since 1970 UTC, into dates and texts."""

from datetime import datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def utc(ts_us: int) -> datetime:
    """Returns the time as a date in UTC."""
    # timedelta does not accept numpy's integers.
    return EPOCH + timedelta(microseconds=int(ts_us))


def moment(ts_us: int) -> str:
    """Returns the time as text, to the microsecond, without its zone (UTC)."""
    return utc(ts_us).strftime("%Y-%m-%d %H:%M:%S.%f")
