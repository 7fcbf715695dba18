"""Moments of a trace, which are microseconds since 1970 UTC, as people write them."""

from datetime import datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def utc(ts_us: int) -> datetime:
    """The time, in UTC."""
    # Numbers of numpy are no microseconds to timedelta.
    return EPOCH + timedelta(microseconds=int(ts_us))


def moment(ts_us: int) -> str:
    """The time in a text, to the microsecond; that it is UTC the text says elsewhere."""
    return utc(ts_us).strftime("%Y-%m-%d %H:%M:%S.%f")
