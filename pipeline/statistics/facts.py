"""The facts of one subscription at the last moment that is known of it, and what they allow to be said.

A missing field is never taken for 0, and what is said of all consumers needs a document that is not cut off.

What one dump shows may be true for a moment only: a consumer at its limit, permits below 0 within a batch, a hash that
drains. It lasts if nothing is sent (`is_still`): between two dumps, up to an exact time of the dump, or by rates of 0
over a whole period of the broker's statistics in a file that is a period younger than the last message that was sent.

Source: contract 4.2, 4.7, 4.8 and 7.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.statistics.model import ConsumerStats, CursorStats, SubscriptionStats
from dispatch_audit.pipeline.statistics.moments import StatisticsMoment
from dispatch_audit.pipeline.statistics.movement import Moved, Movement

STILL_S: Final = 10.0
"""A subscription whose last send is as long before the dump stands still; after a later send it counts as alive."""
# Of the broker's statistics (statsUpdateFrequencyInSecs). After two the rates of a consumer cover a whole one.
_PERIOD_MS: Final = 60_000
_MOVING_MAX: Final = 10


@dataclass(frozen=True)
class SubscriptionFacts:
    """One subscription at one moment.

    Attributes:
        subscription: its statistics.
        moment: the last one.
        movement: since an earlier one; None: there is none.
        limits: of the broker, by the defaults of its release.
        dispatcher: of the broker; None: not known.
    """

    subscription: SubscriptionStats
    moment: StatisticsMoment
    movement: Movement | None
    limits: BrokerLimits
    dispatcher: Dispatcher | None = None

    @property
    def consumers(self) -> tuple[ConsumerStats, ...]:
        """The consumers that are whole in the dump."""
        return self.subscription.consumers

    @property
    def cursor(self) -> CursorStats | None:
        """The cursor, from internal statistics."""
        return self.moment.cursor

    @property
    def is_complete(self) -> bool:
        """Whether something may be said of all consumers."""
        return not self.subscription.cut

    @cached_property
    def held(self) -> int | None:
        """Messages that consumers hold unacknowledged; None: not known."""
        counts = [self.subscription.unacked]
        if self.is_complete and all(c.unacked is not None for c in self.consumers):
            counts.append(sum(max(c.unacked or 0, 0) for c in self.consumers))
        known = [one for one in counts if one is not None]
        return max(*known, 0) if known else None

    @cached_property
    def unread(self) -> int | None:
        """Entries that were not read yet; None: not known."""
        if self.cursor is None or self.moment.ledger is None:
            return None
        return self.moment.ledger.unread(self.cursor.read_position)

    @cached_property
    def waiting(self) -> int | None:
        """Entries that wait to be sent, at least; None: not known.

        The backlog counts entries and the consumers count messages, of which an entry has one or more.
        """
        sub = self.subscription
        if sub.backlog is None or sub.replay is None:
            return None
        held = self.held or 0
        rest = sub.backlog - (sub.delayed or 0) - held
        # Counters are read one after the other: where messages are held, a few of them move meanwhile.
        moving = min(held, _MOVING_MAX)
        return max(sub.replay + (self.unread or 0), rest if rest > moving else 0, 0)

    @cached_property
    def last_ms(self) -> int:
        """The latest timestamp of the dump: it was taken then or later; 0: it has none."""
        sub = self.subscription
        own = (sub.last_sent_ms, sub.last_acked_ms, sub.last_flow_ms, sub.last_mark_delete_ms)
        of_consumers = (at for c in self.consumers for at in (c.last_sent_ms, c.last_acked_ms, c.last_flow_ms))
        return max(*(at or 0 for at in own), *(at or 0 for at in of_consumers), 0)

    @cached_property
    def last_sent_ms(self) -> int:
        """When a message was last sent; 0: not known."""
        return max(self.subscription.last_sent_ms or 0, *(c.last_sent_ms or 0 for c in self.consumers), 0)

    @cached_property
    def quiet_s(self) -> float | None:
        """Seconds from the last message that was sent to the time of the dump; None: not known exactly."""
        clock = self.moment.clock
        if not clock.exact or clock.at_ms is None or not self.last_sent_ms or clock.at_ms < self.last_ms:
            return None
        return (clock.at_ms - self.last_sent_ms) / 1000

    @cached_property
    def flows(self) -> bool:
        """Whether messages are sent, as far as the dump shows."""
        if self.movement is not None and self.movement.sent is not None and self.movement.is_long_enough:
            return self.movement.sent > 0
        rates = (self.subscription.rate_out, *(c.rate_out for c in self.consumers))
        return any(rate is not None and rate > 0 for rate in rates) or self._was_alive

    @property
    def _was_alive(self) -> bool:
        """Whether something was sent shortly before the dump was taken; a copied file only looks older."""
        clock = self.moment.clock
        if clock.at_ms is None or not self.last_sent_ms or (clock.source == "name" and not clock.exact):
            return False
        return 0 <= clock.at_ms - self.last_sent_ms <= STILL_S * 1000

    @cached_property
    def is_still(self) -> bool:
        """Whether it is proved that nothing is sent, and not for a moment only."""
        if not self.is_complete or self.flows:
            return False
        if self.movement is not None and self.movement.sent is not None and self.movement.is_long_enough:
            return self.movement.sent == 0
        if self.quiet_s is not None:
            return self.quiet_s >= STILL_S
        return self._rates_cover_a_period

    @property
    def _rates_cover_a_period(self) -> bool:
        """Whether all rates are 0, cover a period, and the dump was taken a period after the last send, by its age.

        Rates lag by up to a period, so they alone would take the first second of a burst for a standstill.
        """
        clock = self.moment.clock
        if clock.source != "age" or clock.at_ms is None or clock.at_ms < self.last_sent_ms + _PERIOD_MS:
            return False
        rates = (self.subscription.rate_out, *(c.rate_out for c in self.consumers))
        since = [connected_ms(c.connected_since) for c in self.consumers]
        if not self.last_sent_ms or not since or any(rate is None for rate in rates) or any(at is None for at in since):
            return False
        return all(at is not None and at + 2 * _PERIOD_MS <= self.last_ms for at in since)

    def works(self, consumer: ConsumerStats) -> bool:
        """Whether a consumer is sent messages or acknowledges some, as far as the dump shows."""
        moved = self._moved(consumer)
        if moved is not None:
            return bool(moved.sent) or (moved.unacked is not None and moved.unacked < 0)
        return bool(consumer.rate_acked) or bool(consumer.rate_out)

    def refuses_still(self, consumer: ConsumerStats) -> bool:
        """Whether hashes that a consumer holds kept others waiting from the earlier dump to the last one."""
        moved = self._moved(consumer)
        return moved is not None and moved.refused_still > 0

    def rests(self, consumer: ConsumerStats) -> bool:
        """Whether it is proved that a consumer does nothing, and not for a moment only."""
        moved = self._moved(consumer)
        return moved.stands_still if moved is not None else self.is_still and not self.works(consumer)

    def _moved(self, consumer: ConsumerStats) -> Moved | None:
        """What a consumer did between two dumps; None: they are too near to each other, or one lacks it."""
        if self.movement is None or not self.movement.is_long_enough:
            return None
        return self.movement.consumers.get(consumer.identity)


def can_take(consumer: ConsumerStats) -> bool:
    """Whether a consumer can be sent messages."""
    return consumer.permits is not None and consumer.permits > 0 and consumer.blocked is not True


def connected_ms(text: str | None) -> int | None:
    """Returns the time at which a consumer connected, in milliseconds since 1970 UTC; None: not known."""
    if text is None:
        return None
    try:
        # Python 3.10 reads at most six digits of a second, and no Z.
        head, dot, rest = text.replace("Z", "+00:00").partition(".")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        fraction = f".{rest[:digits][:6].ljust(6, '0')}" if dot else ""
        parsed = datetime.fromisoformat(f"{head}{fraction}{rest[digits:] if dot else ''}")
    except ValueError:
        return None
    return int(parsed.timestamp() * 1000) if parsed.tzinfo else None
