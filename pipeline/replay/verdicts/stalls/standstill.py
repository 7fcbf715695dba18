"""Standstills: waits of a subscription, or of one hash, in which the same entry is the oldest that could be sent."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval


class Standstill(NamedTuple):
    """The waits of one standstill, at least one, in their order.

    While nothing is sent to the whole subscription, an entry may be sent now and then. Each such dispatch ends an
    interval of `blocking`, but not the standstill. A hash that is passed over may get another owner meanwhile.
    """

    parts: tuple[Blocked, ...]

    @property
    def span(self) -> Interval:
        """The time from the beginning of the first wait to the end of the last one."""
        first, last = self.parts[0].span, self.parts[-1].span
        return last._replace(from_seq=first.from_seq, from_ts=first.from_ts)

    @property
    def idle_us(self) -> int:
        """The time in which nothing was sent to anybody, or nothing of the hash."""
        return sum(part.span.to_ts - part.span.from_ts for part in self.parts)

    @property
    def longest(self) -> Blocked:
        """The longest of them, whose reason is that of the standstill."""
        return max(self.parts, key=lambda part: part.span.to_ts - part.span.from_ts)

    @property
    def sent_meanwhile(self) -> int:
        """How many entries were sent between its parts."""
        first, last = self.parts[0], self.parts[-1]
        return int(last.detail["sent_before"] - first.detail["sent_before"])


def standstills(waits: Iterable[tuple[Blocked, bool]]) -> list[Standstill]:
    """The standstills, in the order in which their last parts began.

    Where a part of one is proven, the others, which something may explain, say nothing against it and do not count.

    Args:
        waits: those of one subscription, and whether each is proven.
    """
    found: dict[Hashable, list[tuple[Blocked, bool]]] = {}
    for wait, proven in sorted(waits, key=lambda of: (of[0].span.from_ts, of[0].span.from_seq)):
        # The waits of a hash that is sent nothing follow on one another.
        begun, end = (wait.span.from_ts, wait.span.to_ts) if wait.is_passed_over else (0, 0)
        found[wait.standstill, end] = [*found.pop((wait.standstill, begun), []), (wait, proven)]
    return [
        Standstill(tuple(wait for wait, proven in parts if proven == any(proven for _, proven in parts)))
        for parts in found.values()
    ]
