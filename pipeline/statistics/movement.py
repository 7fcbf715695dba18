"""What moved between two dumps of one subscription."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dispatch_audit.pipeline.statistics.model import ConsumerStats, SubscriptionStats
from dispatch_audit.pipeline.statistics.moments import StatisticsMoment

APART_S_MIN: Final = 2.0
"""Two dumps that are nearer to each other than this do not show that something stands still."""


@dataclass(frozen=True)
class Moved:
    """What one consumer did between two dumps; None: a counter is absent.

    Attributes:
        sent: messages that it was sent.
        unacked: by how much its unacknowledged messages rose, or fell (below 0).
        acked: whether it acknowledged something, by the time of its last acknowledgement.
        refused_still: hashes that drain in both dumps, and for which sends were refused between them.
    """

    sent: int | None
    unacked: int | None
    acked: bool = False
    refused_still: int = 0

    @property
    def stands_still(self) -> bool:
        """Whether it was sent nothing and acknowledged nothing."""
        return self.sent == 0 and self.unacked == 0 and not self.acked


@dataclass(frozen=True)
class Movement:
    """What happened between two dumps.

    Attributes:
        seconds: between them; None: not known.
        sent: messages to all consumers; None: not known.
        consumers: of those that both have, by `ConsumerStats.identity`.
        joined: names of consumers that only the later one has.
        left: names of consumers that only the earlier one has.
        mark_delete: whether the mark-delete position moved; None: not known.
        read: whether the read position moved; None: not known.
        replay: by how much the replay queue grew.
        backlog: by how much the backlog grew.
    """

    seconds: float | None
    sent: int | None
    consumers: dict[tuple[str | None, ...], Moved]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    mark_delete: bool | None
    read: bool | None
    replay: int | None
    backlog: int | None

    @property
    def is_long_enough(self) -> bool:
        """Whether the dumps are known to be far enough apart to prove that something stands still."""
        return self.seconds is not None and self.seconds >= APART_S_MIN

    @property
    def is_too_short(self) -> bool:
        """Whether the dumps are known to be too near to each other to show it."""
        return self.seconds is not None and self.seconds < APART_S_MIN


def movement_of(moments: Sequence[StatisticsMoment]) -> Movement | None:
    """Returns what moved up to the last moment, since the last one before it that is some seconds away.

    None: there is only one moment with statistics.
    """
    with_stats = [moment for moment in moments if moment.subscription is not None]
    if len(with_stats) < 2:
        return None
    last = with_stats[-1]
    far = [one for one in with_stats[:-1] if (gap := _seconds(one, last)) is None or gap >= APART_S_MIN]
    return _between(far[-1] if far else with_stats[0], last)


def _seconds(before: StatisticsMoment, after: StatisticsMoment) -> float | None:
    """The seconds between two dumps; None: not known, because nothing but the age of a file says when one was taken."""
    if not (before.clock.is_said and after.clock.is_said) or before.clock.source != after.clock.source:
        return None
    return ((after.clock.at_ms or 0) - (before.clock.at_ms or 0)) / 1000


def _between(before: StatisticsMoment, after: StatisticsMoment) -> Movement:
    earlier, later = before.subscription, after.subscription
    assert earlier is not None
    assert later is not None
    old, new = {c.identity: c for c in earlier.consumers}, {c.identity: c for c in later.consumers}
    both = {identity: _moved(old[identity], consumer) for identity, consumer in new.items() if identity in old}
    cursors = (before.cursor, after.cursor)
    return Movement(
        seconds=_seconds(before, after),
        sent=_sent(earlier, later, both),
        consumers=both,
        joined=tuple(c.name for identity, c in new.items() if identity not in old),
        left=tuple(c.name for identity, c in old.items() if identity not in new),
        mark_delete=_differ(*(cursor and cursor.mark_delete for cursor in cursors)),
        read=_differ(*(cursor and cursor.read_position for cursor in cursors)),
        replay=_difference(earlier.replay, later.replay),
        backlog=_difference(earlier.backlog, later.backlog),
    )


def _moved(before: ConsumerStats, after: ConsumerStats) -> Moved:
    earlier = {hashed: attempts for hashed, _, attempts in before.draining or ()}
    refused = sum(attempts > earlier.get(hashed, attempts) for hashed, _, attempts in after.draining or ())
    acked = (after.last_acked_ms or 0) > (before.last_acked_ms or 0)
    return Moved(_difference(before.sent, after.sent), _difference(before.unacked, after.unacked), acked, refused)


def _sent(
    earlier: SubscriptionStats, later: SubscriptionStats, both: dict[tuple[str | None, ...], Moved]
) -> int | None:
    """The messages that were sent, also to consumers that only one dump has."""
    if not (earlier.lists_consumers and later.lists_consumers):
        sent = _difference(earlier.sent, later.sent)
        # A counter that falls begins anew, with the topic.
        return sent if sent is not None and sent >= 0 else None
    if earlier.cut or later.cut or any(moved.sent is None for moved in both.values()):
        return None
    newcomers = sum(c.sent or 0 for c in later.consumers if c.identity not in both)
    to_consumers = sum(moved.sent or 0 for moved in both.values()) + newcomers
    return max(to_consumers, _difference(earlier.sent, later.sent) or 0)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _differ(before: object, after: object) -> bool | None:
    return None if before is None or after is None else before != after
