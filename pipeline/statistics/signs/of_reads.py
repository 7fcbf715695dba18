"""Signs of reads that do not take place although a consumer could take messages.

They stand only where no limit, draining hash or lack of permits says why entries wait, and need the whole subscription.

Source: contract 4.2 step 9, 4.9, 3.9; #21554, #23845, #26268, #26454.
"""

from collections.abc import Iterator

from dispatch_audit.pipeline.contract.signs import SignName
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts, can_take
from dispatch_audit.pipeline.statistics.signs.sign import Found, certainty, names, since


def of_reads(facts: SubscriptionFacts) -> Iterator[Found]:
    """Yields the signs; none if a consumer that could take messages is missing."""
    sub, cursor = facts.subscription, facts.cursor
    free = [c for c in facts.consumers if can_take(c)]
    if not free or sub.blocked or not facts.waiting or facts.shows_flow:
        return
    pending = None if cursor is None else cursor.have_pending_read
    none_at_cursor = cursor is not None and cursor.waiting_read is False and cursor.pending_reads == 0
    if pending and none_at_cursor:
        # Between the completion of a read and its dispatch it looks the same for a moment.
        proved = facts.is_still and facts.movement is not None and facts.movement.read is False
        shown = (
            "subscriptionHavePendingRead is true, waitingReadOp is false and pendingReadOps is 0; "
            f"{names(free)} could take messages, {entries(facts.waiting)} wait"
        )
        yield Found("pending_read_that_is_none", certainty(proved), (), shown, since(None, facts))
        return
    if sub.replay and _nothing_else_keeps_replay(facts):
        yield _of_replay(facts, parked=bool(cursor is not None and cursor.waiting_read and facts.unread == 0))
    elif facts.unread and not sub.replay and pending is False and none_at_cursor:
        shown = f"{entries(facts.unread)} are unread, no read is pending, {names(free)} could take messages"
        yield Found("nothing_is_read", certainty(facts.is_still), (), shown, since(None, facts))


def _nothing_else_keeps_replay(facts: SubscriptionFacts) -> bool:
    """Whether it is known that all consumers can take messages, no hash drains, and nobody joined lately."""
    sub = facts.subscription
    if facts.dispatcher == "recently_joined":
        is_known = sub.after_mark_delete is not None
    else:
        is_known = all(c.draining_count is not None for c in facts.consumers)
    is_known = is_known and sub.mode is not None and all(c.blocked is not None for c in facts.consumers)
    draining = any(c.draining_count for c in facts.consumers)
    return is_known and all(map(can_take, facts.consumers)) and not draining and not sub.after_mark_delete


def _of_replay(facts: SubscriptionFacts, parked: bool) -> Found:
    shown = (
        f"{entries(facts.subscription.replay or 0)} wait in replay, all {len(facts.consumers):,} consumers have permits"
    )
    last = since(None, facts)
    if not parked:
        # What an entry filter puts off is in replay until it comes again.
        proved = facts.is_still and not facts.subscription.rescheduled
        return Found("replay_not_served", certainty(proved), (), f"{shown}, and no hash drains", last)
    name: SignName = "parked_with_replay_out_of_order" if facts.subscription.out_of_order else "parked_with_replay"
    return Found(
        name, certainty(facts.is_still), (), f"{shown}, and waitingReadOp is true at the end of the topic", last
    )
