"""Findings about how consumers connect and share: those that reconnect for ever or are not let in, uneven shares."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from dispatch_audit.pipeline.contract.rules import RULES, RuleName
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding

_CONSUMERS_MIN: Final = 2
_DISPATCHES_MIN: Final = 10
_TIMES_MEAN: Final = 1.5
_TIMES_LEAST: Final = 3
_IDLE: Final = 0.1
_SHARES_MAX: Final = 10
_LEAVES_MIN: Final = 5
_SHORT_US: Final = 5_000_000
_BY_CLIENT: Final = ("close_consumer", "connection_closed", "")
# Why consumers leave soon after each join, and what to do.
_CLOSES: Final = (
    "each of them takes entries, gives them back and moves hashes, and redelivery counts begin anew when the last "
    "consumer leaves",
    "See in the log of the client why it closes or fails; let it live, and pause or slow down instead.",
)
_CLOSED: Final = (
    "the topic is unloaded or moves to another broker again and again, or somebody seeks: each time all that is not "
    "acknowledged is sent anew",
    "See in the log of the broker why it unloads the topic: the load balancer moves bundles "
    "(loadBalancerSheddingEnabled), or a script does.",
)
# Answers of a broker that the client is to ask again, or another broker: it does so by itself.
_ASK_AGAIN: Final = frozenset({"ServiceNotReady", "MetadataError", "TopicNotFound", "TooManyRequests"})
# In "Subscription reached max consumers limit", or "Topic reached ..." [recorded with 3.0.7 and 4.2.4].
_LIMIT: Final = "max consumers limit"
_NAMED_MAX: Final = 3

Policy = tuple[bool, bool]
"""Whether the mode is STICKY, and whether delivery out of order is allowed."""


def reconnect_loops(context: FindingContext) -> Iterator[JudgedFinding]:
    """Consumers of one name that leave soon after each join."""
    by_name: defaultdict[str, list[tuple[int, Stay]]] = defaultdict(list)
    for stay in context.stays.values():
        if stay.joined is not None and stay.left is not None:
            by_name[stay.row.name].append((stay.left.ts_us - stay.joined.ts_us, stay))
    for name, of_name in by_name.items():
        short = [held for held, _ in of_name if held <= _SHORT_US]
        if len(of_name) < _LEAVES_MIN or 2 * len(short) < len(of_name):
            continue
        last = max((stay for _, stay in of_name), key=lambda stay: stay.row.seq)
        median_s = sorted(short)[len(short) // 2] / 1e6
        assert last.left is not None
        closed = sum(stay.leave_reason not in _BY_CLIENT for _, stay in of_name)
        what = f"consumers named {name} left {count(len(of_name), 'time')}"
        yield _of_consumer(
            last,
            f"{what}{f' (the broker closed {closed:,} of them)' if closed else ''}, {len(short)} of them within "
            f"{_SHORT_US // 1_000_000} s of their join ({median_s:.3f} s in the median)",
            "reconnect_loop",
            context,
            *(_CLOSED if 2 * closed > len(of_name) else _CLOSES),
        )


def different_policies(context: FindingContext) -> Iterator[JudgedFinding]:
    """Consumers that ask for another policy than those that are connected; the first one after all may ask for any."""
    asked: dict[Policy, list[Stay]] = {}
    connected: list[Stay] = []
    joins = (stay for stay in context.stays.values() if not stay.unseen and stay.row.kind == "join")
    for stay in sorted(joins, key=lambda stay: stay.row.seq):
        connected = [one for one in connected if one.left is None or one.left.seq > stay.row.seq]
        others = [one for one in connected if policy_of(one.row) != policy_of(stay.row)]
        for one in (*others, *([stay] if others else [])):
            of_policy = asked.setdefault(policy_of(one.row), [])
            of_policy += [one] if one not in of_policy else []
        connected.append(stay)
    if not asked:
        return
    told = [
        f"{', '.join(dict.fromkeys(of.row.name for of in some[:4]))} ({spoken(policy)})"
        for policy, some in asked.items()
    ]
    other = list(asked.values())[1][0]
    yield _of_consumer(
        other,
        f"consumers ask for different policies in one subscription: {' and '.join(told)}",
        "different_policies",
        context,
    )


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
    return context.fact(
        "refused_join",
        row,
        f"the join of {row.name or 'a consumer without a name'} was refused {count(times, 'time')}"
        f"{f', by {answer}' if answer else ''}",
        [f"seq {context.names.seq(row.seq)}: {row.name} asks to join and is refused"],
        why,
        remedy,
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
            RULES["different_policies"].remedy,
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


def uneven_shares(context: FindingContext) -> Iterator[JudgedFinding]:
    """The consumer that was sent most, with its share, and those that were sent least, if shares are uneven.

    Who was connected for less than half as long as another is not compared, because its share says nothing. A name that
    connects anew is one consumer, unless two of the name were connected at once.
    """
    stays, counts = _by_label(context), context.found.dispatcher.counts
    now_us = context.found.membership.released.ts_us
    connected_us = {label: sum(_connected_us(stay, now_us) for _, stay in of) for label, of in stays.items()}
    long_us = max(connected_us.values(), default=0) / 2
    sent, acknowledged = (
        Counter({label: sum(counts.get(number, (0, 0))[at] for number, _ in of) for label, of in stays.items()})
        for at in range(2)
    )
    compared = [(label, number) for label, number in sent.most_common() if connected_us[label] >= long_us]
    total = sent.total()
    if len(compared) < _CONSUMERS_MIN or total < _DISPATCHES_MIN:
        return
    # Of those that are connected at one time; one that comes and goes is a part of one.
    mean = total * max(connected_us.values()) / max(sum(connected_us.values()), 1)
    (most, most_sent), (_, least_sent) = compared[0], compared[-1]
    # One that acknowledges nothing of what it gets hangs, and is not idle.
    idle = [(label, n) for label, n in compared if n <= _IDLE * mean and not n > acknowledged[label] == 0]
    # Where consumers come and go, what they had to catch up on decides shares.
    uneven = len(compared) == len(sent) and most_sent >= max(_TIMES_MEAN * mean, _TIMES_LEAST * least_sent)
    if not (idle or uneven):
        return
    least = idle or compared[-1:]
    named = ", ".join(f"{label} ({number / total:.0%})" for label, number in least[:_SHARES_MAX])
    more = f" and {len(least) - _SHARES_MAX} more" if len(least) > _SHARES_MAX else ""
    yield _of_consumer(
        stays[most][0][1],
        f"{most} was sent {most_sent / total:.0%} of {count(total, 'dispatch', 'dispatches')}, the most of "
        f"{count(len(sent), 'consumer')}; {'idle or nearly so' if idle else 'least'}: {named}{more}",
        "uneven_share",
        context,
    )


def _by_label(context: FindingContext) -> dict[str, list[tuple[int, Stay]]]:
    """The stays of each consumer by its name, or by its number too where two of the name were connected at once."""
    now_us = context.found.membership.released.ts_us
    until_us: dict[str, int] = {}
    shared: set[str] = set()
    joined = [(number, stay) for number, stay in context.stays.items() if stay.joined is not None]
    for _, stay in joined:
        name = stay.row.name
        if stay.joined is not None and stay.joined.ts_us < until_us.get(name, 0):
            shared.add(name)
        until_us[name] = max(now_us if stay.left is None else stay.left.ts_us, until_us.get(name, 0))
    index_of, by_label = context.found.dispatcher.consumers.of, dict[str, list[tuple[int, Stay]]]()
    for number, stay in joined:
        name = stay.row.name
        label = context.names.spoken(index_of[number]) if name in shared and number in index_of else name
        by_label.setdefault(label, []).append((number, stay))
    return by_label


def _connected_us(stay: Stay, now_us: int) -> int:
    until_us = now_us if stay.left is None else stay.left.ts_us
    return 0 if stay.joined is None else max(until_us - stay.joined.ts_us, 0)


def _of_consumer(
    stay: Stay, what: str, rule: RuleName, context: FindingContext, because: str = "", remedy: str = ""
) -> JudgedFinding:
    row = stay.row
    evidence = [f"seq {context.names.seq(row.seq)}: {row.name} joins"]
    return context.fact(rule, row, what, evidence, because, remedy, consumer_name=row.name)
