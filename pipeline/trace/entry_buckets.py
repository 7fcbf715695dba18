"""Entry-bucket dispatch of Pulsar 5.0 is recognised and refused: its buckets are not in a trace, so nothing is guessed.

A subscriber asks for it by a flag in its key-shared metadata. The broker then assigns buckets of a segment instead of
hashes, by the bucket that producers stamp on entries, so the hash of a key says nothing about who may get it.

Source: contract 3.12; TRACE_FORMAT, "Entry buckets".
"""

from collections.abc import Mapping

from pipeline.errors import TraceError

SETTING = "entryBucketDispatch"


def sets_entry_buckets(settings: Mapping[str, object]) -> bool:
    """Whether `trace.json` says so of all that it describes."""
    return settings.get(SETTING) is True


def entry_buckets_refused(where: str) -> TraceError:
    """The error for a trace, or the subscription of one, that `where` names."""
    return TraceError(
        f"{where}: entry-bucket dispatch (Pulsar 5.0) sends an entry by its bucket, which a trace does not hold",
        "audit the subscriptions without it, by a trace that leaves the others out",
    )
