"""Findings on a topic as a whole: batches of several keys (contract 1.5), and brokers whose clocks do not agree."""

from collections.abc import Iterator
from itertools import pairwise

from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.producer_summary import MixedBatch, Producers, SentByProducer
from dispatch_audit.pipeline.replay.recorders.recorders import Apart, Term
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import (
    JudgedFinding,
    RuleFindings,
    not_provable,
    of_rule,
)
from dispatch_audit.pipeline.replay.verdicts.naming import position

# Producers that a sentence names.
_NAMED_MAX = 3


def mixed_key_batches(sent: Producers, context: FindingContext) -> RuleFindings:
    """The batches of several keys; the broker routes each by the key of its first message (contract 1.5)."""
    producers = sent.all()
    inspected = sum(producer.batches_inspected for producer in producers)
    return RuleFindings(
        "mixed_key_batch",
        inspected,
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
        [
            f"seq {context.names.seq(batch.seq)}: {at} published {by} with {count(batch.messages, 'message')} of the "
            f"keys {named}"
        ],
        ledger_id=batch.ledger,
        entry_id=batch.entry,
    )


def published_twice(sent: Producers, context: FindingContext) -> RuleFindings:
    """The producers that sent entries again which the topic had already (contract 9.3, E10)."""
    producers = sent.all()
    found = [_twice(one, one.again_first, context) for one in producers if one.again_first is not None]
    return of_rule("published_twice", len(producers), found)


def _twice(one: SentByProducer, first: tuple[int, int, int, int], context: FindingContext) -> JudgedFinding:
    seq, ts_us, ledger, entry = first
    at = position(ledger, entry)
    return context.fact(
        "published_twice",
        TracePoint(seq, ts_us),
        f"producer {one.producer} published {count(one.again, 'duplicate')}: entries with a sequence id and key that "
        f"it had used before, {at} the first",
        [f"seq {context.names.seq(seq)}: {at} published"],
        ledger_id=ledger,
        entry_id=entry,
        detail={"entries": one.again, "producer": one.producer},
    )


def two_kinds_of_keys(sent: Producers, context: FindingContext) -> RuleFindings:
    """Whether some entries are routed by an ordering key and others by their partition key (contract 1.1)."""
    producers = sent.all()
    with_ordering = [one for one in producers if one.ordering]
    without = [one for one in producers if one.entries > one.ordering + one.keyless]
    found = [_kinds(with_ordering, without, context)] if with_ordering and without else []
    return of_rule("two_kinds_of_keys", len(producers), found)


def _kinds(some: list[SentByProducer], others: list[SentByProducer], context: FindingContext) -> JudgedFinding:
    number = sum(one.ordering for one in some), sum(one.entries - one.ordering - one.keyless for one in others)
    names = [", ".join(str(one.producer) for one in of[:_NAMED_MAX]) for of in (some, others)]
    last = others[0].last[0]
    return context.fact(
        "two_kinds_of_keys",
        TracePoint(last, context.found.membership.released.ts_us),
        f"{entries(number[0])} with an ordering key (by {names[0]}) and {entries(number[1])} with only a key (by "
        f"{names[1]}) are in one topic",
        [f"seq {context.names.seq(last)}: the last entry of {others[0].producer}"],
    )


def clocks_apart(context: FindingContext) -> Iterator[RuleFindings]:
    """The transfers between clocks that are apart; nothing where a topic has one recorder."""
    recorders = context.recorders
    if recorders.terms:
        after = {term.first: before for before, term in pairwise(recorders.terms)}
        found = [_clocks(apart, after[apart.place], context) for apart in recorders.apart]
        yield of_rule("clocks_apart", len(after), found)


def _clocks(apart: Apart, before: Term, context: FindingContext) -> JudgedFinding:
    because = (
        f"their rows are behind the stamps of the producer {apart.producer} by times that differ by as much, "
        "so nothing is said of how long anything took that began on the one and ended on the other"
    )
    return context.finding(
        TracePoint(apart.place, before.until_us),
        context.recorders.spoken_clocks(apart),
        not_provable(because),
        [f"seq {context.names.seq(apart.place)}: first row of the next owner"],
        remedy=RULES["clocks_apart"].remedy,
        detail={"ahead_seconds": apart.ahead_us / 1e6, "producer": apart.producer},
    )
