"""Findings of rule `mixed_key_batch`: batches of several keys, which have the key of the batch only (contract 1.5)."""

from pipeline.replay.packing.producer_summary import MixedBatch
from pipeline.replay.recorders.recorders import Recorders
from pipeline.replay.traffic.producers import Producers
from pipeline.replay.verdicts.naming import position
from pipeline.replay.verdicts.rule_findings import RuleFindings


def mixed_key_batches(sent: Producers, recorders: Recorders) -> RuleFindings:
    """The batches of several keys, of which the broker heeds the first only (contract 1.5)."""
    every = sent.all()
    looked_into = sum(of.batches_inspected for of in every)
    return RuleFindings(
        "mixed_key_batch",
        looked_into,
        {"info": sum(of.mixed_batches for of in every)},
        [_row(batch, recorders) for batch in sent.mixed],
    )


def _row(batch: MixedBatch, recorders: Recorders) -> dict[str, object]:
    keys = ["no key" if key is None else key for key in batch.keys]
    more = batch.keys_total - len(keys)
    named = ", ".join(keys) + (f" and {more} more" if more else "")
    at = position(batch.ledger, batch.entry)
    by = f"by {batch.producer}" if batch.producer is not None else "by a producer without a name"
    return {
        "severity": "info",
        "ledger_id": batch.ledger,
        "entry_id": batch.entry,
        "seq": batch.seq,
        "ts_us": batch.ts_us,
        "evidence": [
            f"seq {recorders.spoken(batch.seq)}: {at} published {by} with {batch.messages} messages of the keys {named}"
        ],
        "explanation": (
            f"the batch {at} holds messages of {batch.keys_total} keys; the broker routes it by the first message's, "
            "so the order of the other keys is not kept"
        ),
    }
