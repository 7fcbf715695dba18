"""The part of a growing log that one audit covers, as a caller asks for it: from a moment to a moment.

The order of a trace is `seq`, and its clock is only nearly so. Where in that order a moment lies is found in the log
itself (`pipeline.windows.seq_bounds`), and from which state a window starts in the tables (`pipeline.windows.chain`).
"""

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from pipeline.errors import UsageError
from pipeline.trace.validate import TS_US_MAX
from pipeline.utc import EPOCH, utc

_DATE_FIRST = re.compile(r"\d{4}-\d\d-\d\d")
# Reads ISO 8601 alike in every version of Python; of other forms, which it knows too, nothing is given to it.
_ISO_8601 = TypeAdapter(datetime)
_WAY_OUT = "write 2026-11-21T14:00:00Z (without a zone it is UTC), or microseconds since 1970"


class Window(NamedTuple):
    """What is asked of an audit.

    Attributes:
        from_us: where it begins, microseconds since 1970 UTC; None: where the window before ended.
        to_us: where it ends, itself not in it; None: at the end of the log.
    """

    from_us: int | None
    to_us: int | None

    @property
    def spoken(self) -> str:
        """How a text calls it."""
        begin = "the beginning of the log" if self.from_us is None else told(self.from_us)
        end = "its end" if self.to_us is None else told(self.to_us)
        return f"{begin} to {end}"


WHOLE = Window(None, None)
"""All of a log, which is taken to be complete."""


def window_of(from_text: str | None, to_text: str | None) -> Window:
    """The window that a command line means.

    Raises:
        UsageError: a text is no moment, or the window ends before it begins.
    """
    window = Window(*(None if text is None else moment_us(text) for text in (from_text, to_text)))
    if window.from_us is not None and window.to_us is not None and window.from_us >= window.to_us:
        raise UsageError(f"the window from {from_text} to {to_text} is empty", "let --to lie behind --from")
    return window


def moment_us(text: str) -> int:
    """A moment in microseconds since 1970 UTC.

    Args:
        text: ISO 8601, which without a zone is UTC, or the microseconds themselves.

    Raises:
        UsageError: it is neither, or lies outside of the years 1970 to 9999.
    """
    moment = int(text) if text.isascii() and text.isdigit() else _since_1970(text)
    if not 0 <= moment <= TS_US_MAX:
        raise UsageError(f"{text} does not lie in the years 1970 to 9999", _WAY_OUT)
    return moment


def told(moment_us: int) -> str:
    """A moment as ISO 8601, such as `moment_us` reads it back."""
    return utc(moment_us).isoformat().replace("+00:00", "Z")


def _since_1970(text: str) -> int:
    try:
        if _DATE_FIRST.match(text) is None:
            raise UsageError(f"{text!r} is no moment", _WAY_OUT)
        moment = _ISO_8601.validate_python(text)
    except ValidationError:
        raise UsageError(f"{text!r} is no moment", _WAY_OUT) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - EPOCH) // timedelta(microseconds=1)
