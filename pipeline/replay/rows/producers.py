"""Rows of `producers` (Q29)."""

from dispatch_audit.pipeline.replay.traffic.producers import Producers
from dispatch_audit.pipeline.replay.verdicts.naming import Rows


def producers(sent: Producers) -> Rows:
    """A row for each producer of the topic."""
    return [
        {
            "producer_name": producer.producer,
            "entries": producer.entries,
            "messages": producer.messages,
            "batches": producer.batches,
            "batches_inspected": producer.batches_inspected,
            "mixed_batches": producer.mixed_batches,
            "keyless_entries": producer.keyless,
            "chunked_entries": producer.chunked,
        }
        for producer in sent.all()
        if producer.entries
    ]
