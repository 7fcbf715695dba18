"""Findings of `refused_join`: consumers that the broker did not let in, and what stood in their way."""

from collections.abc import Iterator, Sequence
from typing import Final

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding

# Answers of a broker that the client is to ask again, or another broker: it does so by itself.
_ASK_AGAIN: Final = frozenset({"ServiceNotReady", "MetadataError", "TopicNotFound", "TooManyRequests"})
# In "Subscription reached max consumers limit", or "Topic reached ..." [recorded with 3.0.7 and 4.2.4].
_LIMIT: Final = "max consumers limit"
_NAMED_MAX: Final = 3

Policy = tuple[bool, bool]
"""Whether the mode is STICKY, and whether delivery out of order is allowed."""

ONE_POLICY: Final = "Give all consumers of a subscription one KeySharedPolicy, or a subscription each."
"""What helps where consumers of a subscription ask for different ones."""


def policy_of(join: MembershipEvent) -> Policy:
    """What a join asks for."""
    return join.sticky, join.out_of_order


def spoken(policy: Policy) -> str:
    """A policy in words."""
    sticky, out_of_order = policy
    return (
        f"{'STICKY' if sticky else 'AUTO_SPLIT'}, out-of-order delivery {'allowed' if out_of_order else 'not allowed'}"
    )


def refused_joins(context: FindingContext) -> list[JudgedFinding]:
    """One finding for each name and reason, those that were refused most often first."""
    kinds = context.found.membership.refused_joins.kinds.values()
    return [_finding(row, times, context) for row, times in sorted(kinds, key=lambda kind: -kind[1])]


def _finding(row: MembershipEvent, times: int, context: FindingContext) -> JudgedFinding:
    answer = ": ".join(filter(None, (row.reason, row.error)))
    why, remedy = _why(row, [stay for stay in context.stays.values() if _is_there(stay, row.seq)])
    return context.finding(
        row,
        f"the join of {row.name or 'a consumer without a name'} was refused {count(times, 'time')}"
        f"{f', by {answer}' if answer else ''}",
        FindingVerdict("info", because=why),
        [f"seq {context.names.seq(row.seq)}: {row.name} asks to join and is refused"],
        remedy=remedy,
        consumer_name=row.name,
        detail={"times": times, "reason": row.reason},
    )


def _is_there(stay: Stay, seq: int) -> bool:
    joined, left = stay.joined, stay.left
    return joined is not None and joined.seq <= seq and (left is None or left.seq >= seq)


def _why(row: MembershipEvent, there: Sequence[Stay]) -> tuple[str, str]:
    """What stood in the way of a join, as far as the consumers show that were connected, and what helps."""
    if others := [stay for stay in there if policy_of(stay.row) != policy_of(row)]:
        asked = f"it asks for {spoken(policy_of(row))}, and {_named(others)} for {spoken(policy_of(others[0].row))}"
        return (
            f"different policies in one subscription: {asked}; the broker refuses a join that differs (from 4.0.1 on)",
            ONE_POLICY,
        )
    if others := [stay for stay in there if any(_overlaps(row, stay.row))]:
        ranges = ", ".join(f"{start} to {end}" for start, end in row.ranges[:_NAMED_MAX])
        return (
            f"ranges overlap: it asks for {ranges}, and {_named(others)} has a part of that",
            "Give each consumer of a STICKY subscription ranges of its own; a client that connects anew may come "
            "before the broker has noticed that it was gone.",
        )
    if row.reason in _ASK_AGAIN:
        return "the broker did not serve the topic then, and the client asks again", "Nothing, if it joined later."
    if _LIMIT in (row.error or ""):
        return (
            f"a limit allows no more (maxConsumersPerSubscription, maxConsumersPerTopic): "
            f"{count(len(there), 'consumer')} of the subscription at that time",
            "Raise the limit in broker.conf or in the policies of the topic or its namespace, or run fewer consumers.",
        )
    return (
        "nothing in the trace shows what stood in its way",
        "See in the log of the client, and of the broker, why the subscribe request failed.",
    )


def _overlaps(row: MembershipEvent, other: MembershipEvent) -> Iterator[bool]:
    for start, end in row.ranges:
        for first, last in other.ranges:
            yield start <= last and first <= end


def _named(stays: Sequence[Stay]) -> str:
    return ", ".join(dict.fromkeys(stay.row.name for stay in stays[:_NAMED_MAX]))
