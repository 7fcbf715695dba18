"""Findings on a topic as a whole: batches of several keys (contract 1.5), and brokers whose clocks do not agree."""

from collections.abc import Iterator
from itertools import pairwise

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.producer_summary import MixedBatch, Producers
from dispatch_audit.pipeline.replay.recorders.recorders import Apart, Term
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.naming import position
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict, not_provable

_BY_THE_FIRST = FindingVerdict(
    "info",
    because=(
        "the broker routes it by the key of the first message, so messages of the other keys may be delivered out of "
        "order"
    ),
)


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
    return context.finding(
        TracePoint(batch.seq, batch.ts_us),
        f"batch {at} contains messages of {count(batch.keys_total, 'key')}",
        _BY_THE_FIRST,
        [
            f"seq {context.names.seq(batch.seq)}: {at} published {by} with {count(batch.messages, 'message')} of the "
            f"keys {named}"
        ],
        remedy="Publish one key per batch, as the key-based batcher does.",
        ledger_id=batch.ledger,
        entry_id=batch.entry,
    )


def clocks_apart(context: FindingContext) -> Iterator[RuleFindings]:
    """The transfers between clocks that are apart; nothing where a topic has one recorder."""
    recorders = context.recorders
    if recorders.terms:
        after = {term.first: before for before, term in pairwise(recorders.terms)}
        found = [_clocks(apart, after[apart.place], context) for apart in recorders.apart]
        yield RuleFindings("clocks_apart", len(after), {"not_provable": len(found)}, found)


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
        remedy="Synchronize the clocks of the brokers (NTP).",
        detail={"ahead_seconds": apart.ahead_us / 1e6, "producer": apart.producer},
    )
