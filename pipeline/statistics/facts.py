"""The facts of one subscription at the last moment that is known of it, and what they allow to be said.

A missing field is never taken for 0, and what is said of all consumers needs a document that is not cut off.

What one dump shows may be true for a moment only: a consumer at its limit, permits below 0 within a batch, a hash that
drains. It lasts if nothing is sent (`is_still`): between two dumps of known times, or up to a time at which the dump is
known not to be taken yet, its own or that of any event in it. The age of a file proves nothing: a copy changes it.

Signs rest on what the documents show (`shows_flow`); only how certain they are, and the answer, also rest on the clock.
So the same document under another name is about the same cause.

Source: contract 4.2, 4.7, 4.8 and 7.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits
from dispatch_audit.pipeline.statistics.model import KEY_SHARED, ConsumerStats, CursorStats, SubscriptionStats
from dispatch_audit.pipeline.statistics.moments import StatisticsMoment
from dispatch_audit.pipeline.statistics.movement import Moved, Movement

STILL_S: Final = 10.0
"""A subscription whose last send is as long before the dump stands still; after a later send it counts as alive."""
HANGS_S: Final = 60.0
"""A consumer that holds messages may work on one of them; one that did nothing for as long is taken to hang."""
_MOVING_MAX: Final = 10
_ZONE: Final = re.compile(r"(\d)([+-]\d\d)(\d\d)$")


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
        """The consumers that can be sent messages and are whole in the dump: of Failover the active one."""
        sub = self.subscription
        active = tuple(c for c in sub.consumers if c.name == sub.active_consumer)
        return active if self.has_one_receiver and len(active) == 1 else sub.consumers

    @property
    def is_key_shared(self) -> bool:
        """Whether consumers own hashes; a subscription without consumers may have no type."""
        return self.subscription.type in (None, "None", KEY_SHARED)

    @property
    def has_one_receiver(self) -> bool:
        """Whether one consumer gets everything; brokers before 2.11 do not count what it has not acknowledged."""
        return self.subscription.type in ("Failover", "Exclusive")

    @property
    def cursor(self) -> CursorStats | None:
        """The cursor, from internal statistics."""
        return self.moment.cursor

    @property
    def is_complete(self) -> bool:
        """Whether something may be said of all consumers."""
        return not self.subscription.cut and self.subscription.lists_consumers

    @property
    def number(self) -> int | None:
        """How many consumers are connected, of Failover the active one; None: not known."""
        return len(self.consumers) if self.is_complete else self.subscription.connected

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
        # Releases before 2.11 do not report msgInReplay: what they leave is the backlog less what is held.
        if sub.backlog is None or (sub.cut and None in (sub.replay, sub.unacked)):
            return None
        held = self.held or 0
        rest = sub.backlog - (sub.delayed or 0) - held
        # Counters are read one after the other: where messages are held, a few of them move meanwhile.
        moving = min(held, _MOVING_MAX)
        return max((sub.replay or 0) + (self.unread or 0), rest if rest > moving else 0, 0)

    @property
    def may_wait(self) -> bool:
        """Whether entries wait, or consumers were pasted alone, so that nothing says whether some do."""
        return bool(self.waiting) or (self.subscription.backlog is None and self.is_complete)

    @cached_property
    def last_ms(self) -> int:
        """The latest timestamp of the dump: it was taken then or later; 0: it has none."""
        sub = self.subscription
        own = (sub.last_sent_ms, sub.last_acked_ms, sub.last_flow_ms, sub.last_mark_delete_ms, self.moment.latest_ms)
        of_consumers = (at for c in self.consumers for at in (c.last_sent_ms, c.last_acked_ms, c.last_flow_ms))
        connected = (connected_ms(c.connected_since) for c in self.consumers)
        return max(*(at or 0 for at in own), *(at or 0 for at in of_consumers), *(at or 0 for at in connected), 0)

    @cached_property
    def not_before_ms(self) -> int:
        """A time at or after which the dump was taken; 0: not known."""
        clock = self.moment.clock
        return max(self.last_ms, clock.at_ms if clock.exact and clock.at_ms is not None else 0)

    @cached_property
    def last_sent_ms(self) -> int:
        """When a message was last sent; 0: not known."""
        # Entries that are read and delayed set the time too, without being sent.
        own = 0 if self.subscription.sent == 0 else self.subscription.last_sent_ms or 0
        return max(own, *(c.last_sent_ms or 0 for c in self.consumers if c.sent != 0), 0)

    @cached_property
    def quiet_s(self) -> float | None:
        """Seconds from the last message that was sent to the dump, at least; None: not known."""
        return (self.not_before_ms - self.last_sent_ms) / 1000 if self.last_sent_ms else None

    @cached_property
    def shows_flow(self) -> bool:
        """Whether messages are sent, by the documents alone."""
        if self.movement is not None and self.movement.sent is not None and not self.movement.is_too_short:
            return self.movement.sent > 0
        rates = (self.subscription.rate_out, *(c.rate_out for c in self.consumers))
        return any(rate is not None and rate > 0 for rate in rates)

    @cached_property
    def flows(self) -> bool:
        """Whether messages are sent, as far as the documents and the time of the dump show."""
        return self.shows_flow or (not self._stood_still and self._was_alive)

    @property
    def _was_alive(self) -> bool:
        """Whether something was sent shortly before the time at which the dump was taken."""
        clock = self.moment.clock
        if not clock.exact or clock.at_ms is None or not self.last_sent_ms:
            return False
        return self.not_before_ms - self.last_sent_ms <= STILL_S * 1000

    @property
    def _stood_still(self) -> bool:
        """Whether nothing was sent between two dumps that are known to be some seconds apart."""
        return self.movement is not None and self.movement.is_long_enough and self.movement.sent == 0

    @cached_property
    def is_still(self) -> bool:
        """Whether it is proved that nothing is sent, and not for a moment only."""
        if self.subscription.cut or self.flows:
            return False
        return self._stood_still or (self.quiet_s is not None and self.quiet_s >= STILL_S)

    @cached_property
    def still_s(self) -> float | None:
        """Seconds for which nothing was sent, at least; None: not known."""
        between = self.movement.seconds if self._stood_still and self.movement is not None else None
        known = [one for one in (between, self.quiet_s) if one is not None]
        return max(known, default=None)

    def works(self, consumer: ConsumerStats) -> bool:
        """Whether a consumer is sent messages or acknowledges some, as far as the dump shows."""
        moved = self._moved(consumer)
        if moved is not None:
            return bool(moved.sent) or (moved.unacked is not None and moved.unacked < 0)
        return bool(consumer.rate_acked) or bool(consumer.rate_out)

    def refuses_still(self, consumer: ConsumerStats) -> bool:
        """Whether hashes that a consumer holds kept others waiting from the earlier dump to the last one."""
        moved = self._moved(consumer)
        apart = self.movement is not None and self.movement.is_long_enough
        return apart and moved is not None and moved.refused_still > 0

    def rests(self, consumer: ConsumerStats) -> bool:
        """Whether it is proved that a consumer does nothing, and not for a moment only."""
        moved = self._moved(consumer)
        if moved is not None and self.movement is not None and self.movement.is_long_enough:
            return moved.stands_still
        return self.is_still and not self.works(consumer) and self._idle_s(consumer) >= STILL_S

    def hangs(self, consumer: ConsumerStats) -> bool:
        """Whether it is proved that a consumer does nothing, for longer than work on one message takes."""
        return self.rests(consumer) and self._idle_s(consumer) >= HANGS_S

    def _idle_s(self, consumer: ConsumerStats) -> float:
        """Seconds since a consumer was sent or acknowledged something, at least; without both, since it connected."""
        last_ms = max(consumer.last_acked_ms or 0, consumer.last_sent_ms or 0)
        begin_ms = last_ms or connected_ms(consumer.connected_since) or self.not_before_ms
        moved = self._moved(consumer)
        between = self.movement.seconds or 0.0 if self.movement and moved is not None and moved.stands_still else 0.0
        return max((self.not_before_ms - begin_ms) / 1000, between)

    def _moved(self, consumer: ConsumerStats) -> Moved | None:
        """What a consumer did between two dumps; None: they are too near to each other, or one lacks it."""
        if self.movement is None or self.movement.is_too_short:
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
        # Python 3.10 reads at most six digits of a second, no Z, and no zone without a colon, which old releases write.
        whole = _ZONE.sub(r"\1\2:\3", text.strip().replace("Z", "+00:00"))
        head, dot, rest = whole.partition(".")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        fraction = f".{rest[:digits][:6].ljust(6, '0')}" if dot else ""
        parsed = datetime.fromisoformat(f"{head}{fraction}{rest[digits:] if dot else ''}")
    except ValueError:
        return None
    return int(parsed.timestamp() * 1000) if parsed.tzinfo else None
