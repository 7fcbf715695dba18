"""Rows of `producers`, and the findings of `mixed_key_batch` (Q29)."""

from pipeline.replay.traffic.producers import Producers
from pipeline.replay.verdicts.naming import Rows


def producers(topic: str, subscription: str, sent: Producers) -> Rows:
    """A row for each producer of the topic."""
    return [
        {
            "topic": topic,
            "subscription": subscription,
            "producer_name": of.producer,
            "entries": of.entries,
            "messages": of.messages,
            "batches": of.batches,
            "batches_inspected": of.batches_inspected,
            "mixed_batches": of.mixed_batches,
            "keyless_entries": of.keyless,
            "chunked_entries": of.chunked,
        }
        for of in sent.all()
        if of.entries
    ]
