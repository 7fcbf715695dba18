"""Signs that need the whole subscription: limits, the replay queue, ranges and totals.

A dump that is cut off shows none of them, because consumers or counters may be missing.

Source: contract 2.4, 4.6, 4.7, 4.14, 6.1; #15705, #25581, #26289.
"""

from collections.abc import Iterator
from typing import Final

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.statistics.facts import HANGS_S, SubscriptionFacts, can_take
from dispatch_audit.pipeline.statistics.model import STICKY, ConsumerStats
from dispatch_audit.pipeline.statistics.signs.sign import Found, certainty, named, names, since

_LAST_HASH: Final = 65_535
_GAPS_SHOWN: Final = 3


def of_subscriptions(facts: SubscriptionFacts) -> Iterator[Found]:
    """Yields the signs, in no order."""
    yield from _limit(facts)
    yield from _look_ahead(facts)
    yield from _gap(facts)
    yield from _recently_joined(facts)
    yield from _nobody_has_permits(facts)
    yield from _totals(facts)
    yield from _states(facts)


def _limit(facts: SubscriptionFacts) -> Iterator[Found]:
    sub = facts.subscription
    if sub.blocked is not True:
        return
    holders = _holders(facts)
    shown = f"blockedSubscriptionOnUnackedMsgs is true with {sub.unacked or 0:,} unacknowledged"
    shown += f"; most are with {_with_unacked(holders)}" if holders else ""
    since_when = since(holders[0] if holders else None, facts)
    yield Found("subscription_limit", certainty(facts.is_still), named(holders[:3]), shown, since_when)


def _look_ahead(facts: SubscriptionFacts) -> Iterator[Found]:
    sub, number = facts.subscription, facts.number
    # 3.x and the classic dispatcher have no such limit.
    if facts.dispatcher == "recently_joined" or not facts.is_key_shared or not number or sub.replay is None:
        return
    limit = facts.limits.look_ahead(number)
    if limit is None or sub.replay < limit:
        return
    slow = _slowest(facts)
    shown = f"{entries(sub.replay)} in replay, with a limit of {limit:,} for {count(number, 'consumer')}"
    shown += f"; {_with_unacked(slow)} cannot be sent more" if slow and not can_take(slow[0]) else ""
    free = [c for c in facts.consumers if can_take(c)]
    shown += f"; {names(free)} could take messages" if free else ""
    # A leave may take replay above its limit for a moment, while messages flow on. Metrics do not say a type; only keys
    # keep replay from a consumer that could take it.
    is_ordered = sub.type is not None or bool(free) or (facts.still_s or 0) >= HANGS_S
    proved = facts.is_still and is_ordered
    yield Found("look_ahead_limit", certainty(proved), named(slow[:3]), shown, since(slow[0] if slow else None, facts))


def _slowest(facts: SubscriptionFacts) -> list[ConsumerStats]:
    """The consumers to blame for a full replay: without permits, else with draining hashes, else with most messages."""
    full = [c for c in facts.consumers if c.permits is not None and not can_take(c) and (c.unacked or 0) > 0]
    draining = [c for c in facts.consumers if c.draining_count]
    return sorted(full or draining, key=lambda c: -(c.unacked or 0)) or _holders(facts)[:1]


def _gap(facts: SubscriptionFacts) -> Iterator[Found]:
    sub = facts.subscription
    if sub.mode != STICKY or not facts.consumers or any(c.ranges is None for c in facts.consumers):
        return
    gaps = _uncovered(sorted(one for c in facts.consumers for one in c.ranges or ()))
    if not gaps or not facts.waiting:
        return
    listed = ", ".join(f"{first} to {last}" for first, last in gaps[:_GAPS_SHOWN])
    more = f" and {len(gaps) - _GAPS_SHOWN:,} more" if len(gaps) > _GAPS_SHOWN else ""
    only_gap = bool(sub.replay) and all(map(can_take, facts.consumers))
    although = " although all consumers have permits" if only_gap else ""
    shown = f"no consumer has the hashes {listed}{more}; {entries(sub.replay or 0)} wait in replay{although}"
    movement = facts.movement
    stays = movement is not None and movement.is_long_enough and movement.replay is not None and movement.replay >= 0
    proved = only_gap and (facts.is_still or stays)
    yield Found("hash_gap", certainty(proved), (), shown, since(None, facts))


def _uncovered(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of hashes that no consumer has; reported ranges may lack those of one hash (contract 2.4)."""
    gaps, following = [], 0
    for first, last in ranges:
        if first - following > 1:
            gaps.append((following, first - 1))
        following = max(following, last + 1)
    return gaps + ([(following, _LAST_HASH)] if following < _LAST_HASH else [])


def _recently_joined(facts: SubscriptionFacts) -> Iterator[Found]:
    mark_delete = facts.cursor.mark_delete if facts.cursor is not None else None
    after = facts.subscription.after_mark_delete
    if after is None and mark_delete is not None:
        # The entry after the mark-delete position may be the first of the next ledger.
        joined_at = {c.name: c.read_position_when_joining for c in facts.consumers}
        after = {
            name: at for name, at in joined_at.items() if at is not None and at > (mark_delete[0], mark_delete[1] + 1)
        }
    if not after or not facts.waiting:
        return
    holders = [c for c in _holders(facts) if c.name not in after] or _holders(facts)
    root = (
        f"; the oldest entry that is not acknowledged follows {mark_delete[0]}:{mark_delete[1]}" if mark_delete else ""
    )
    held = f"; {_with_unacked(holders)} has not acknowledged" if holders else ""
    joined = [c for c in facts.consumers if c.name in after]
    if not holders and facts.subscription.delayed:
        shown = (
            f"{entries(facts.subscription.delayed)} are delayed and keep the mark-delete position, and "
            f"{names(joined) or ', '.join(after)} joined after them; no consumer holds a message"
        )
        yield Found("delayed_before_joined", certainty(facts.is_still), (), shown, since(None, facts))
        return
    shown = f"{names(joined) or ', '.join(after)} joined after entries that are not acknowledged yet{held}{root}"
    proved = facts.is_still and not (facts.movement is not None and facts.movement.mark_delete)
    yield Found(
        "recently_joined",
        certainty(proved),
        named(holders[:3]),
        shown,
        since(holders[0] if holders else None, facts),
    )


def _nobody_has_permits(facts: SubscriptionFacts) -> Iterator[Found]:
    consumers = facts.consumers
    if not consumers or facts.shows_flow or not facts.waiting:
        return
    if any(c.permits is None or c.permits > 0 for c in consumers):
        return
    # One that holds nothing owes permits, where it is counted what it holds.
    if all(c.unacked == 0 for c in consumers) and not facts.has_one_receiver:
        return
    each = ", ".join(f"{c.name} {c.permits:,}" for c in consumers[:3])
    more = f" and {len(consumers) - 3:,} more" if len(consumers) > 3 else ""
    shown = f"availablePermits: {each}{more}; {entries(facts.waiting)} wait at least"
    holders = _holders(facts)
    yield Found(
        "no_permits",
        certainty(all(map(facts.hangs, consumers))),
        named(holders[:3]),
        shown,
        since((holders or consumers)[0], facts),
    )


def _totals(facts: SubscriptionFacts) -> Iterator[Found]:
    sub, counts = facts.subscription, [c.unacked for c in facts.consumers]
    most = sum(max(one or 0, 0) for one in counts)
    if sub.unacked is not None and all(one is not None and one >= 0 for one in counts) and sub.unacked < most:
        shown = f"unackedMessages of the subscription is {sub.unacked:,}, and its consumers have {most:,}"
        # Both are read one after the other.
        yield Found("total_below_consumers", certainty(sub.unacked < 0 or facts.is_still), (), shown)
    holders = _holders(facts)
    if sub.backlog is None or not holders or any(one is None for one in counts):
        return
    # Batches hold more messages than entries.
    single = all(c.messages_per_entry is not None and c.messages_per_entry <= 1 for c in holders)
    if most > sub.backlog and (sub.backlog == 0 or single):
        shown = f"{most:,} messages are counted as unacknowledged, and the backlog is {entries(sub.backlog)}"
        # Backlog and counters are read one after the other.
        yield Found("unacknowledged_beyond_backlog", certainty(facts.is_still), named(holders[:3]), shown)


def _states(facts: SubscriptionFacts) -> Iterator[Found]:
    sub = facts.subscription
    if sub.throttled:
        yield Found("rate_limited", "compatible", (), f"reads were throttled {count(sub.throttled, 'time')}")
    if sub.rejected or sub.rescheduled:
        shown = (
            f"filters rejected {count(sub.rejected or 0, 'message')}, and put off {sub.rescheduled or 0:,} times one"
        )
        yield Found("entry_filter", "compatible", (), shown)
    if sub.expired:
        yield Found("expired", "proved", (), f"totalMsgExpired is {sub.expired:,}")
    if sub.rate_redeliver and sub.rate_out is not None and 2 * sub.rate_redeliver >= sub.rate_out:
        shown = f"{sub.rate_redeliver:,.1f} of {sub.rate_out:,.1f} messages a second were sent before"
        yield Found("sent_again", "compatible", (), shown)
    if sub.holes is not None and sub.holes > facts.limits.ack_holes:
        shown = f"{sub.holes:,} ranges, with a default of {facts.limits.ack_holes:,} that are persisted"
        yield Found("many_holes", "proved", (), shown)
    if facts.unread is None or sub.backlog is None or sub.replay is None or facts.held is None or facts.shows_flow:
        return
    missing = sub.backlog - facts.unread - sub.replay - facts.held - (sub.delayed or 0)
    if missing > 0 and facts.waiting:
        shown = (
            f"of {entries(sub.backlog)} in the backlog {facts.held:,} are held at most, {sub.replay:,} are in replay, "
            f"{facts.unread:,} are unread: {missing:,} are in no count"
        )
        yield Found("unaccounted", "compatible", (), shown)


def _holders(facts: SubscriptionFacts) -> list[ConsumerStats]:
    """The consumers that hold messages, those with most first."""
    return sorted((c for c in facts.consumers if (c.unacked or 0) > 0), key=lambda c: -(c.unacked or 0))


def _with_unacked(consumers: list[ConsumerStats]) -> str:
    shown = ", ".join(f"{c.name} ({c.unacked or 0:,} unacknowledged)" for c in consumers[:3])
    more = len(consumers) - 3
    return f"{shown}{f' and {more:,} more' if more > 0 else ''}"
