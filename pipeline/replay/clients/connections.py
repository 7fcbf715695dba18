"""Findings about how clients connect, share and publish.

Consumers that reconnect for ever or are not let in, uneven shares, batches of several keys (contract 1.5), duplicates.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dispatch_audit.pipeline.contract.rules import RULES, RuleName
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.packing.producer_summary import MixedBatch, Producers
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.membership.history import Stay
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding, RuleFindings, of_rule, position

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


def reconnect_loops(context: FindingContext) -> Iterator[JudgedFinding]:
    """Consumers of one name that leave soon after each join."""
    by_name: defaultdict[str, list[tuple[int, Stay]]] = defaultdict(list)
    for stay in context.stays.values():
        if stay.joined is not None and stay.left is not None:
            by_name[stay.row.name].append((stay.left.ts_us - stay.joined.ts_us, stay))
    for name, of_name in by_name.items():
        short = sorted(held for held, _ in of_name if held <= _SHORT_US)
        if len(of_name) < _LEAVES_MIN or 2 * len(short) < len(of_name):
            continue
        last = max((stay for _, stay in of_name), key=lambda stay: stay.row.seq)
        closed = sum(stay.leave_reason not in _BY_CLIENT for _, stay in of_name)
        by_broker = f" (the broker closed {closed:,} of them)" if closed else ""
        what = (
            f"consumers named {name} left {count(len(of_name), 'time')}{by_broker}, {len(short)} of them within "
            f"{_SHORT_US // 1_000_000} s of their join ({short[len(short) // 2] / 1e6:.3f} s in the median)"
        )
        yield _of_consumer("reconnect_loop", last, what, context, *(_CLOSED if 2 * closed > len(of_name) else _CLOSES))


def different_policies(context: FindingContext) -> Iterator[JudgedFinding]:
    """The first consumer that asks for another policy than one that is connected."""
    connected: list[Stay] = []
    joins = (stay for stay in context.stays.values() if not stay.unseen and stay.row.kind == "join")
    for stay in sorted(joins, key=lambda stay: stay.row.seq):
        connected = [one for one in connected if one.left is None or one.left.seq > stay.row.seq]
        if others := _of_other_policy(stay.row, connected):
            asked = f"{_named(others)} ({_spoken(others[0].row)}) and {stay.row.name} ({_spoken(stay.row)})"
            what = f"consumers ask for different policies in one subscription: {asked}"
            yield _of_consumer("different_policies", stay, what, context)
            return
        connected.append(stay)


def _of_other_policy(row: MembershipEvent, connected: Iterable[Stay]) -> list[Stay]:
    policy = row.sticky, row.out_of_order
    return [stay for stay in connected if (stay.row.sticky, stay.row.out_of_order) != policy]


def _spoken(join: MembershipEvent) -> str:
    """The policy that a join asks for, in words."""
    allowed = "allowed" if join.out_of_order else "not allowed"
    return f"{'STICKY' if join.sticky else 'AUTO_SPLIT'}, out-of-order delivery {allowed}"


def refused_joins(context: FindingContext) -> list[JudgedFinding]:
    """One finding for each name and reason, those that were refused most often first."""
    kinds = context.found.membership.refused_joins.kinds.values()
    return [_refused(row, times, context) for row, times in sorted(kinds, key=lambda kind: -kind[1])]


def _refused(row: MembershipEvent, times: int, context: FindingContext) -> JudgedFinding:
    answer = ": ".join(filter(None, (row.reason, row.error)))
    by = f", by {answer}" if answer else ""
    return context.fact(
        "refused_join",
        row,
        f"the join of {row.name or 'a consumer without a name'} was refused {count(times, 'time')}{by}",
        f"{row.name} asks to join and is refused",
        *_why(row, [stay for stay in context.stays.values() if stay.is_there(row.seq)]),
        consumer_name=row.name,
        detail={"times": times, "reason": row.reason},
    )


def _why(row: MembershipEvent, there: Sequence[Stay]) -> tuple[str, str]:
    """What stood in the way of a join, as far as the consumers show that were connected, and what helps."""
    if others := _of_other_policy(row, there):
        asked = f"it asks for {_spoken(row)}, and {_named(others)} for {_spoken(others[0].row)}"
        return (
            f"different policies in one subscription: {asked}; the broker refuses a join that differs (from 4.0.1 on)",
            RULES["different_policies"].remedy,
        )
    if others := [stay for stay in there if _overlap(row, stay.row)]:
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


def _overlap(row: MembershipEvent, other: MembershipEvent) -> bool:
    return any(start <= last and first <= end for start, end in row.ranges for first, last in other.ranges)


def _named(stays: Sequence[Stay]) -> str:
    return ", ".join(dict.fromkeys(stay.row.name for stay in stays[:_NAMED_MAX]))


def uneven_shares(context: FindingContext) -> Iterator[JudgedFinding]:
    """The consumer that was sent most, with its share, and those that were sent least, if shares are uneven.

    Who was connected for less than half as long as another is not compared, because its share says nothing. A name that
    connects anew is one consumer, unless two of the name were connected at once.
    """
    stays, counts = _by_label(context), context.found.dispatcher.counts
    connected_us = {
        label: sum(until_us - stay.joined.ts_us for until_us, _, stay in of if stay.joined)
        for label, of in stays.items()
    }
    long_us = max(connected_us.values(), default=0) / 2
    sent, acknowledged = (
        Counter({label: sum(counts.get(number, (0, 0))[at] for _, number, _ in of) for label, of in stays.items()})
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
    what = (
        f"{most} was sent {most_sent / total:.0%} of {count(total, 'dispatch', 'dispatches')}, the most of "
        f"{count(len(sent), 'consumer')}; {'idle or nearly so' if idle else 'least'}: {named}{more}"
    )
    yield _of_consumer("uneven_share", stays[most][0][2], what, context)


def _by_label(context: FindingContext) -> dict[str, list[tuple[int, int, Stay]]]:
    """The stays of each consumer by its name, or by its number too where two of the name were connected at once.

    Each is there with its end in microseconds, and the number of the consumer.
    """
    now_us = context.found.membership.released.ts_us
    last_us: dict[str, int] = {}
    shared: set[str] = set()
    joined = []
    for number, stay in context.stays.items():
        if stay.joined is not None:
            name, until_us = stay.row.name, now_us if stay.left is None else stay.left.ts_us
            if stay.joined.ts_us < last_us.get(name, 0):
                shared.add(name)
            last_us[name] = max(until_us, last_us.get(name, 0))
            joined.append((max(until_us, stay.joined.ts_us), number, stay))
    index_of, by_label = context.found.dispatcher.consumers.of, defaultdict[str, list[tuple[int, int, Stay]]](list)
    for one in joined:
        name, number = one[2].row.name, one[1]
        label = context.names.spoken(index_of[number]) if name in shared and number in index_of else name
        by_label[label].append(one)
    return by_label


def _of_consumer(
    rule: RuleName, stay: Stay, what: str, context: FindingContext, because: str = "", remedy: str = ""
) -> JudgedFinding:
    row = stay.row
    return context.fact(rule, row, what, f"{row.name} joins", because, remedy, consumer_name=row.name)


def mixed_key_batches(sent: Producers, context: FindingContext) -> RuleFindings:
    """The batches of several keys; the broker routes each by the key of its first message (contract 1.5)."""
    producers = sent.all()
    return RuleFindings(
        "mixed_key_batch",
        sum(producer.batches_inspected for producer in producers),
        {"info": sum(producer.mixed_batches for producer in producers)},
        [_mixed(batch, context) for batch in sent.mixed],
    )


def _mixed(batch: MixedBatch, context: FindingContext) -> JudgedFinding:
    keys = ["no key" if key is None else key for key in batch.keys]
    more = batch.keys_total - len(keys)
    named = ", ".join(keys) + (f" and {more} more" if more else "")
    at = position(batch.ledger, batch.entry)
    by = f"by {batch.producer}" if batch.producer is not None else "by a producer without a name"
    return context.fact(
        "mixed_key_batch",
        TracePoint(batch.seq, batch.ts_us),
        f"batch {at} contains messages of {count(batch.keys_total, 'key')}",
        f"{at} published {by} with {count(batch.messages, 'message')} of the keys {named}",
        entry=(batch.ledger, batch.entry),
    )


def published_twice(sent: Producers, context: FindingContext) -> RuleFindings:
    """The producers that sent entries again which the topic had already (contract 9.3, E10)."""
    found = []
    for one in sent.all():
        if one.again_first is not None:
            seq, ts_us, ledger, entry = one.again_first
            what = (
                f"producer {one.producer} published {count(one.again, 'duplicate')}: entries with a sequence id and "
                f"key that it had used before, {position(ledger, entry)} the first"
            )
            shown, detail = f"{position(ledger, entry)} published", {"entries": one.again, "producer": one.producer}
            at = TracePoint(seq, ts_us)
            found.append(context.fact("published_twice", at, what, shown, entry=(ledger, entry), detail=detail))
    return of_rule("published_twice", len(sent.all()), found)


def two_kinds_of_keys(sent: Producers, context: FindingContext) -> RuleFindings:
    """Whether some entries are routed by an ordering key and others by their partition key (contract 1.1)."""
    producers = sent.all()
    ordered = {one: one.ordering for one in producers if one.ordering}
    others = {one: one.entries - one.ordering - one.keyless for one in producers}
    others = {one: number for one, number in others.items() if number > 0}
    found = []
    if ordered and others:
        first, last = next(iter(others)), next(iter(others)).last[0]
        some, rest = (", ".join(str(one.producer) for one in [*of][:_NAMED_MAX]) for of in (ordered, others))
        what = (
            f"{entries(sum(ordered.values()))} with an ordering key (by {some}) and {entries(sum(others.values()))} "
            f"with only a key (by {rest}) are in one topic"
        )
        at = TracePoint(last, context.found.membership.released.ts_us)
        found = [context.fact("two_kinds_of_keys", at, what, f"the last entry of {first.producer}")]
    return of_rule("two_kinds_of_keys", len(producers), found)
