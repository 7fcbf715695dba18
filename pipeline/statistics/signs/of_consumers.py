"""Signs that one consumer alone shows. A dump that is cut off shows them of the consumers that are whole.

Source: contract 3.4, 3.9, 4.8, 4.14; #22657, #23845, #24096, #24418.
"""

from collections import Counter
from collections.abc import Iterator

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts, can_take
from dispatch_audit.pipeline.statistics.model import ConsumerStats
from dispatch_audit.pipeline.statistics.signs.sign import Found, certainty, named, names, since


def of_consumers(facts: SubscriptionFacts) -> Iterator[Found]:
    """Yields the signs, in no order."""
    yield from _blocked(facts)
    yield from _draining(facts)
    yield from _permits(facts)
    yield from _below_zero(facts)
    yield from _hangs(facts)
    yield from _names_and_ranges(facts)


def _blocked(facts: SubscriptionFacts) -> Iterator[Found]:
    blocked = [c for c in facts.consumers if c.blocked is True and c.unacked is not None]
    free = [c for c in blocked if (c.unacked or 0) <= 0]
    if free:
        # The flag is cleared after the counter, so an acknowledgement shows it for an instant.
        shown = f"{names(free)}: blockedConsumerOnUnackedMsgs is true with {free[0].unacked} unacknowledged"
        proved = any(facts.rests(c) for c in free)
        yield Found("blocked_without_unacknowledged", certainty(proved), named(free), shown, since(free[0], facts))
    full = sorted((c for c in blocked if (c.unacked or 0) > 0), key=lambda c: -(c.unacked or 0))
    if full:
        shown = f"{names(full)}: blocked with {count(full[0].unacked or 0, 'unacknowledged message')}"
        proved = any(facts.rests(c) for c in full)
        yield Found("consumer_limit", certainty(proved), named(full), shown, since(full[0], facts))


def _draining(facts: SubscriptionFacts) -> Iterator[Found]:
    holders = sorted((c for c in facts.consumers if c.draining_count), key=lambda c: -(c.draining_entries or 0))
    # An entry holds one message or more, so fewer unacknowledged messages than entries cannot be.
    stale = [c for c in holders if c.unacked is not None and (c.draining_entries or 0) > max(c.unacked, 0)]
    if stale:
        first = stale[0]
        shown = (
            f"{names(stale)}: {count(first.draining_count or 0, 'hash', 'hashes')} drain with "
            f"{entries(first.draining_entries or 0)}, but {first.name} holds "
            f"{count(max(first.unacked or 0, 0), 'unacknowledged message')}"
        )
        proved = any(facts.rests(c) for c in stale)
        yield Found("draining_beyond_held", certainty(proved), named(stale), shown, since(first, facts))
    holders = [c for c in holders if c not in stale]
    replay = facts.subscription.replay
    refused = [c for c in holders if _attempts(c) and (replay or (replay is None and facts.may_wait))]
    if refused:
        yield Found(
            "draining_holds_others",
            certainty(bool(replay) and any(facts.rests(c) or facts.refuses_still(c) for c in refused)),
            named(refused),
            _draining_shown(refused, facts),
            since(refused[0], facts),
        )


def _draining_shown(holders: list[ConsumerStats], facts: SubscriptionFacts) -> str:
    parts = [
        f"{c.name} holds {entries(c.draining_entries or 0)} of {count(c.draining_count or 0, 'hash', 'hashes')} that "
        f"moved to others, which were refused {count(_attempts(c), 'time')}"
        for c in holders[:3]
    ]
    others = [c for c in facts.consumers if c not in holders and can_take(c)]
    free = f"; {names(others)} could take messages" if others else ""
    return f"{'; '.join(parts)}{_in_replay(facts)}{free}"


def _in_replay(facts: SubscriptionFacts) -> str:
    replay = facts.subscription.replay
    return "" if replay is None else f"; {entries(replay)} wait in replay"


def _attempts(consumer: ConsumerStats) -> int:
    return sum(attempts for _, _, attempts in consumer.draining or ())


def _permits(facts: SubscriptionFacts) -> Iterator[Found]:
    """Consumers without permits that hold nothing: their clients owe permits."""
    # Of Failover and Exclusive old releases do not count what is held.
    if not facts.may_wait or facts.has_one_receiver:
        return
    # A batch takes permits below 0, and its acknowledgement comes after the permits for it.
    owing = [c for c in facts.consumers if c.permits is not None and c.permits <= 0 and c.unacked == 0]
    owing = sorted((c for c in owing if not c.rate_out and c.blocked is not True), key=lambda c: c.permits or 0)
    if not owing:
        return
    each = ", ".join(f"{c.name} has {c.permits:,}" for c in owing[:3])
    more = f" and {len(owing) - 3:,} more" if len(owing) > 3 else ""
    below = "" if (owing[0].permits or 0) == 0 else "negative: "
    shown = f"availablePermits are {below or 'used up: '}{each}{more}, with nothing unacknowledged"
    proved = bool(facts.waiting) and any(facts.rests(c) for c in owing)
    yield Found("permits_not_returned", certainty(proved), named(owing), shown, since(owing[0], facts))


def _hangs(facts: SubscriptionFacts) -> Iterator[Found]:
    """Consumers with a full queue that acknowledge nothing, while others could take messages and entries wait."""
    replay = facts.subscription.replay
    # Releases before 2.11 do not report replay.
    if not (replay or (replay is None and facts.may_wait)) or not any(map(can_take, facts.consumers)):
        return
    full = [c for c in facts.consumers if c.permits is not None and c.permits <= 0 and (c.unacked or 0) > 0]
    full = sorted((c for c in full if not facts.works(c) and not c.blocked), key=lambda c: -(c.unacked or 0))
    if full:
        first = full[0]
        shown = (
            f"{names(full)}: {first.permits:,} permits, {count(first.unacked or 0, 'unacknowledged message')}"
            f"{_in_replay(facts)}"
        )
        proved = bool(replay) and any(facts.hangs(c) for c in full)
        yield Found("hangs", certainty(proved), named(full), shown, since(first, facts))


def _below_zero(facts: SubscriptionFacts) -> Iterator[Found]:
    below = [c for c in facts.consumers if c.unacked is not None and c.unacked < 0]
    if below:
        shown = ", ".join(f"{c.name} has {c.unacked:,}" for c in below[:3])
        yield Found("unacknowledged_below_zero", "proved", named(below), f"unackedMessages: {shown}")


def _names_and_ranges(facts: SubscriptionFacts) -> Iterator[Found]:
    if not facts.is_key_shared or facts.moment.aggregated:
        return
    equal = [name for name, number in Counter(c.name for c in facts.consumers).items() if number > 1]
    if equal:
        number = sum(c.name == equal[0] for c in facts.consumers)
        shown = f"{number:,} consumers are called {equal[0]}"
        yield Found("equal_names", "proved", tuple(equal[:3]), shown)
    without = [c for c in facts.consumers if c.ranges_count == 0]
    if without and any(c.ranges_count for c in facts.consumers):
        proved = facts.subscription.mode is not None and not facts.subscription.cut
        yield Found("without_ranges", certainty(proved), named(without), f"{names(without)}: no hash ranges")
