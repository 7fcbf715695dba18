"""Refuses a trace whose `ts_us` has another unit than microseconds.

A wall clock in seconds or milliseconds, read as microseconds, lies in the first weeks of 1970, and every time and
threshold of the audit would be wrong by a factor of a thousand or more. The clock of a trace written by hand, which
begins near 0, is accepted.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.utc import utc

# Pulsar was published in 2016, so no recorder has a clock before `_SINCE_S`, nor one as late as `_UNTIL_S`.
_SINCE_S: Final = 1_420_070_400  # 2015
_UNTIL_S: Final = 4_102_444_800  # 2100
_UNITS: Final = {"seconds": 1, "milliseconds": 1000}


def refuse_other_units(counts: Sequence[Count], path: str) -> None:
    """Refuses times that are surely in seconds or milliseconds.

    Args:
        counts: of the rows of the trace.
        path: of the trace, for messages.

    Raises:
        TraceError: the first time of the trace is such a time, or that of a recorder while others have microseconds.
    """
    timed = [count for count in counts if count.refused is None and count.first_ts_us is not None]
    times = [count.first_ts_us or 0 for count in timed]
    if not times:
        return
    some_are_right = any(_SINCE_S <= time // 1_000_000 < _UNTIL_S for time in times)
    for count, time in zip(timed, times, strict=True):
        unit = _unit_of(time)
        if unit is not None and (some_are_right or time == min(times)):
            by = f" of recorder {count.broker}" if count.broker is not None else ""
            meant = utc(time * 1_000_000 // _UNITS[unit])
            raise TraceError(
                f"{path}: the first ts_us{by} is {time}, which looks like {unit} ({meant:%Y-%m-%d}); in microseconds "
                f"it is of {utc(time):%Y-%m-%d}",
                "write ts_us as microseconds since 1970 UTC",
            )


def _unit_of(time: int) -> str | None:
    return next((name for name, a_second in _UNITS.items() if _SINCE_S <= time // a_second < _UNTIL_S), None)
