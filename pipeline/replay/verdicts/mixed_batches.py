"""Findings of rule `mixed_key_batch`: batches with messages of several keys (contract 1.5)."""

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.packing.producer_summary import MixedBatch
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.traffic.producers import Producers
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.naming import position


def mixed_key_batches(sent: Producers, recorders: Recorders) -> RuleFindings:
    """The batches of several keys; the broker routes each by the key of its first message (contract 1.5)."""
    producers = sent.all()
    inspected = sum(producer.batches_inspected for producer in producers)
    return RuleFindings(
        "mixed_key_batch",
        inspected,
        {"info": sum(producer.mixed_batches for producer in producers)},
        [_finding(batch, recorders) for batch in sent.mixed],
    )


def _finding(batch: MixedBatch, recorders: Recorders) -> JudgedFinding:
    keys = ["no key" if key is None else key for key in batch.keys]
    more = batch.keys_total - len(keys)
    named = ", ".join(keys) + (f" and {more} more" if more else "")
    at = position(batch.ledger, batch.entry)
    by = f"by {batch.producer}" if batch.producer is not None else "by a producer without a name"
    return JudgedFinding(
        severity="info",
        seq=batch.seq,
        ts_us=batch.ts_us,
        explanation=FindingText(
            what=f"batch {at} contains messages of {count(batch.keys_total, 'key')}",
            why=(
                "the broker routes it by the key of the first message, so messages of the other keys may be delivered "
                "out of order",
            ),
            remedy="Publish one key per batch, as the key-based batcher does.",
        ),
        evidence=[
            f"seq {recorders.spoken(batch.seq)}: {at} published {by} with {count(batch.messages, 'message')} of the "
            f"keys {named}"
        ],
        ledger_id=batch.ledger,
        entry_id=batch.entry,
    )
