"""Says what dumps lack, and how to get it: each clause names the fields that would decide more."""

from collections.abc import Iterator
from typing import Final

from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts

_NEEDED: Final = {
    "msgBacklog": "backlog",
    "msgInReplay": "replay",
    "unackedMessages": "unacked",
    "msgRateOut": "rate_out",
    "keySharedMode": "mode",
}
_OF_CONSUMERS: Final = {"availablePermits": "permits", "blockedConsumerOnUnackedMsgs": "blocked"}
_POSITIONS: Final = (
    "stats-internal (readPosition, waitingReadOp, pendingReadOps), which says whether what waits is read"
)


def lacks(facts: SubscriptionFacts, topic: str) -> Iterator[str]:
    """Yields what the dumps of a subscription lack, as clauses.

    Args:
        facts: at the last moment.
        topic: its name.
    """
    named = topic if "://" in topic else "TOPIC"
    sub = facts.subscription
    if sub.cut:
        yield "the end of the dump, so nothing is said of all consumers"
    if facts.moment.aggregated:
        yield "the partitions (these are sums over them, which prove little): use partitioned-stats --per-partition"
    if not sub.lists_consumers and not sub.cut:
        yield f"consumers, whose permits and unacknowledged messages say who: pulsar-admin topics stats {named}"
    if facts.cursor is None and not facts.moment.aggregated:
        yield _POSITIONS if facts.waiting else "stats-internal"
    yield from _fields(facts)
    if facts.movement is None:
        yield "a second dump, which would show what moves"
    if facts.moment.unreadable:
        yield f"readable values of {', '.join(dict.fromkeys(facts.moment.unreadable))}"


def _fields(facts: SubscriptionFacts) -> Iterator[str]:
    sub = facts.subscription
    needed = {name: field for name, field in _NEEDED.items() if facts.is_key_shared or field != "mode"}
    if sub.type is None:
        del needed["keySharedMode"]
        yield "the type of the subscription, which is taken for Key_Shared"
    absent = [name for name, field in needed.items() if getattr(sub, field) is None]
    if absent:
        yield f"{', '.join(absent)} of the subscription"
    if facts.consumers and facts.is_key_shared and facts.dispatcher != "recently_joined":
        if all(c.draining_count is None for c in facts.consumers):
            yield "drainingHashes, which brokers from 4.0 on report: whether hashes drain is not known"
        elif any(c.draining is None for c in facts.consumers if c.draining_count):
            yield "the list of drainingHashes"
    absent = [name for name, field in _OF_CONSUMERS.items() if any(getattr(c, field) is None for c in facts.consumers)]
    if absent:
        yield f"{', '.join(absent)} of consumers"
