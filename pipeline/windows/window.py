"""The part of a growing log that one audit covers, as a caller requests it: from a moment to a moment.

`seq` orders a trace, and its times are only nearly in that order. The log shows at which seq a moment lies
(`dispatch_audit.pipeline.windows.seq_bounds`), the tables from which state a window starts
(`dispatch_audit.pipeline.windows.chain`).
"""

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.trace.checks.one_row import TS_US_MAX
from dispatch_audit.pipeline.utc import EPOCH, utc

_DATE_FIRST = re.compile(r"\d{4}-\d\d-\d\d")
# Reads ISO 8601 the same way in every version of Python. It accepts other forms too, so the date is checked first.
_ISO_8601 = TypeAdapter(datetime)
_WAY_OUT = "write 2026-11-21T14:00:00Z (without a zone it is UTC), or microseconds since 1970"


class Window(NamedTuple):
    """A window as requested.

    Attributes:
        from_us: its beginning, microseconds since 1970 UTC; None: the end of the window before.
        to_us: its end, not included; None: the end of the log.
    """

    from_us: int | None
    to_us: int | None

    @property
    def text(self) -> str:
        """The window in words."""
        begin = "the beginning of the log" if self.from_us is None else iso_8601(self.from_us)
        end = "its end" if self.to_us is None else iso_8601(self.to_us)
        return f"{begin} to {end}"


WHOLE = Window(None, None)
"""The whole log, which is taken to be complete."""


def window_of(from_text: str | None, to_text: str | None) -> Window:
    """Returns the window of two options of the command line.

    Raises:
        UsageError: a text is not a time, or the window ends before it begins.
    """
    window = Window(*(None if text is None else moment_us(text) for text in (from_text, to_text)))
    if window.from_us is not None and window.to_us is not None and window.from_us >= window.to_us:
        raise UsageError(f"the window from {from_text} to {to_text} is empty", "--to must be later than --from")
    return window


def moment_us(text: str) -> int:
    """Returns a moment in microseconds since 1970 UTC.

    Args:
        text: ISO 8601, in UTC if it has no zone, or the microseconds themselves.

    Raises:
        UsageError: it is neither, or is not in the years 1970 to 9999.
    """
    moment = int(text) if text.isascii() and text.isdigit() else _since_1970(text)
    if not 0 <= moment <= TS_US_MAX:
        raise UsageError(f"{text} is not in the years 1970 to 9999", _WAY_OUT)
    return moment


def iso_8601(moment_us: int) -> str:
    """Returns a moment as ISO 8601, which the function `moment_us` reads back."""
    return utc(moment_us).isoformat().replace("+00:00", "Z")


def _since_1970(text: str) -> int:
    try:
        if _DATE_FIRST.match(text) is None:
            raise UsageError(f"{text!r} is not a time", _WAY_OUT)
        moment = _ISO_8601.validate_python(text)
    except ValidationError:
        raise UsageError(f"{text!r} is not a time", _WAY_OUT) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - EPOCH) // timedelta(microseconds=1)
