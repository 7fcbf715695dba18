"""All signs of a subscription, those that say most first."""

from dispatch_audit.pipeline.contract.signs import sign_texts
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.wording import duration
from dispatch_audit.pipeline.statistics.facts import HANGS_S, SubscriptionFacts, can_take
from dispatch_audit.pipeline.statistics.signs.of_consumers import of_consumers
from dispatch_audit.pipeline.statistics.signs.of_reads import of_reads
from dispatch_audit.pipeline.statistics.signs.of_subscriptions import of_subscriptions
from dispatch_audit.pipeline.statistics.signs.sign import CERTAINTIES, Found, certainty, named, names, since


def signs_of(facts: SubscriptionFacts) -> tuple[Found, ...]:
    """Returns what was found: what is proved first, then in the order of the catalogue."""
    found = list(of_consumers(facts))
    if not facts.subscription.cut:
        found += of_subscriptions(facts)
        # A read that does not take place explains nothing where something else does.
        if not any(sign_texts()[one.name].kind == "holds_up" for one in found):
            found += of_reads(facts)
        if not any(sign_texts()[one.name].kind == "holds_up" for one in found):
            found += _of_nothing_else(facts)
    order = list(sign_texts())
    ranked = sorted(found, key=lambda one: (-CERTAINTIES.index(one.certainty), order.index(one.name)))
    return tuple(_capped(one, facts) for one in ranked)


def _of_nothing_else(facts: SubscriptionFacts) -> list[Found]:
    """The sign to report if no other says why entries are not sent, or not acknowledged."""
    if facts.shows_flow:
        return []
    if facts.waiting and not facts.subscription.lists_consumers and facts.number != 0:
        return [_of_no_consumer_that_is_listed(facts)]
    free = [c for c in facts.consumers if can_take(c)]
    if facts.waiting and free:
        put_off = facts.subscription.rescheduled
        shown = f"{entries(facts.waiting)} wait at least, {names(free)} could take messages"
        shown += f"; entry filters put one off {put_off:,} times" if put_off else ""
        # The backlog alone may be counted wrongly; what is unread, in replay or published since is not.
        proved = facts.is_still and not put_off and bool(facts.unread or facts.subscription.replay or _grows(facts))
        return [Found("nothing_moves", certainty(proved), (), shown, since(None, facts))]
    holders = sorted((c for c in facts.consumers if (c.unacked or 0) > 0), key=lambda c: -(c.unacked or 0))
    idle = [c for c in holders if not facts.works(c)]
    if facts.waiting == 0 and idle and facts.subscription.backlog:
        shown = f"{idle[0].name} holds {count(idle[0].unacked or 0, 'unacknowledged message')}; nothing else waits"
        # It may work on what it holds, which no dump shows.
        return [Found("not_acknowledging", "compatible", named(idle[:3]), shown, since(idle[0], facts))]
    return []


def _of_no_consumer_that_is_listed(facts: SubscriptionFacts) -> Found:
    """That nothing is sent, from counters of the subscription alone; which consumers have permits is not known."""
    still = facts.still_s
    shown = f"{entries(facts.waiting or 0)} wait at least"
    shown += f", {count(facts.number, 'consumer')} are connected" if facts.number else ""
    shown += f", nothing was sent for {duration(still)} or longer" if still is not None else ", nothing is sent"
    proved = bool(facts.number) and facts.is_still and still is not None and still >= HANGS_S
    return Found("nothing_moves", certainty(proved), (), shown, since(None, facts))


def _grows(facts: SubscriptionFacts) -> bool:
    movement = facts.movement
    return movement is not None and movement.backlog is not None and movement.backlog > 0


def _capped(found: Found, facts: SubscriptionFacts) -> Found:
    """The sign, not `proved` if the dump is a sum over partitions; a sum proves impossible counters only."""
    if not facts.moment.aggregated or found.certainty != "proved" or sign_texts()[found.name].kind == "counter":
        return found
    return Found(found.name, "compatible", found.consumers, found.shown, found.since)
