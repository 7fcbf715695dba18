"""One sign as it was found, with how certain it is."""

from dataclasses import dataclass
from typing import Final, Literal

from dispatch_audit.pipeline.contract.signs import SignName
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import duration, moment
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts, connected_ms
from dispatch_audit.pipeline.statistics.model import ConsumerStats

Certainty = Literal["proved", "compatible", "not_decidable"]
"""The dumps prove it; they are compatible with it, and with its absence a moment later; they do not decide it."""

CERTAINTIES: Final = ("not_decidable", "compatible", "proved")


@dataclass(frozen=True)
class Found:
    """A sign that was found.

    Attributes:
        certainty: of what its title says.
        consumers: names of the consumers that it is about.
        shown: what the dumps show, a clause; it is certain at the moment of the dump.
        since: since when, a clause; empty: the dumps do not say.
    """

    name: SignName
    certainty: Certainty
    consumers: tuple[str, ...]
    shown: str
    since: str = ""


def certainty(proved: bool) -> Certainty:
    """Returns `proved` or `compatible`."""
    return "proved" if proved else "compatible"


def since(consumer: ConsumerStats | None, facts: SubscriptionFacts) -> str:
    """Returns since when a consumer acknowledges nothing, and nothing is sent, as a clause; empty: not known."""
    parts = []
    if consumer is None:
        pass
    elif consumer.sent and consumer.unacked is not None and consumer.unacked >= consumer.sent:
        connected = connected_ms(consumer.connected_since)
        at = f" since it connected at {moment(connected * 1000)}" if connected is not None else ""
        parts.append(
            f"{consumer.name} has acknowledged none of the {count(consumer.sent, 'message')} that it was sent{at}"
        )
    elif consumer.last_acked_ms:
        parts.append(f"{consumer.name} last acknowledged at {_ago(consumer.last_acked_ms, facts)}")
    if facts.last_sent_ms:
        parts.append(f"the last message was sent at {_ago(facts.last_sent_ms, facts)}")
    return "; ".join(parts)


def _ago(at_ms: int, facts: SubscriptionFacts) -> str:
    """A time, and how long before the dump it was, as far as that is known."""
    clock, text = facts.moment.clock, moment(at_ms * 1000)
    if clock.exact and clock.at_ms is not None and clock.at_ms >= at_ms:
        return f"{text} ({duration((clock.at_ms - at_ms) / 1000)} before the dump)"
    if facts.last_ms > at_ms:
        return f"{text} (at least {duration((facts.last_ms - at_ms) / 1000)} before the dump)"
    return text


def named(consumers: list[ConsumerStats]) -> tuple[str, ...]:
    """Returns the names of consumers, for `Found.consumers`."""
    return tuple(consumer.name for consumer in consumers)


def names(consumers: list[ConsumerStats], most: int = 3) -> str:
    """Returns the names of consumers, of many the first ones."""
    shown = [consumer.name for consumer in consumers[:most]]
    more = len(consumers) - len(shown)
    return f"{', '.join(shown)}{f' and {more:,} more' if more > 0 else ''}"
