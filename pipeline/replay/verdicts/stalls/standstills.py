"""Joins what was found of one standstill: stalls in which the same entry is the oldest that could be sent.

While an entry that could be sent waits, others may be sent now and then. Each such dispatch ends an interval of
`blocking`, but not the standstill: that is one finding, as long as that entry waits.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval


class Standstill(NamedTuple):
    """The stalls of one standstill, at least one, in their order."""

    parts: tuple[Blocked, ...]

    @property
    def span(self) -> Interval:
        """The time from the beginning of the first stall to the end of the last one."""
        first, last = self.parts[0].span, self.parts[-1].span
        return last._replace(from_seq=first.from_seq, from_ts=first.from_ts)

    @property
    def idle_us(self) -> int:
        """The time in which nothing was sent to anybody."""
        return sum(part.span.to_ts - part.span.from_ts for part in self.parts)

    @property
    def longest(self) -> Blocked:
        """The longest of them, whose reason is that of the standstill."""
        return max(self.parts, key=lambda part: part.span.to_ts - part.span.from_ts)

    @property
    def longest_us(self) -> int:
        """The length of that one."""
        return self.longest.span.to_ts - self.longest.span.from_ts

    @property
    def sent_meanwhile(self) -> int:
        """How many entries were sent between its parts."""
        first, last = self.parts[0], self.parts[-1]
        return int(last.detail["sent_before"] - first.detail["sent_before"])


def standstills(stalls: Iterable[tuple[Blocked, bool]]) -> list[Standstill]:
    """The standstills, in the order in which they began.

    Where a part of one is proven, the others, which something may explain, say nothing against it and do not count.

    Args:
        stalls: those of one subscription, and whether each is proven.
    """
    found: dict[Hashable, list[tuple[Blocked, bool]]] = {}
    for stall, proven in sorted(stalls, key=lambda of: (of[0].span.from_ts, of[0].span.from_seq)):
        found.setdefault(stall.standstill, []).append((stall, proven))
    return [_standstill(parts) for parts in found.values()]


def _standstill(parts: Sequence[tuple[Blocked, bool]]) -> Standstill:
    any_proven = any(proven for _, proven in parts)
    return Standstill(tuple(stall for stall, proven in parts if proven == any_proven))
