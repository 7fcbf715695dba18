"""Entry-bucket dispatch of Pulsar 5.0 is recognised and refused: its buckets are not in a trace, so nothing is guessed.

A subscriber asks for it by a flag in its key-shared metadata. The broker then assigns buckets of a segment instead of
hashes, by the bucket that producers stamp on entries, so the hash of a key says nothing about who may get it.

Source: SEMANTICS 3.12; TRACE_FORMAT, "Entry buckets".
"""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sf

from pipeline.errors import TraceError

SETTING = "entryBucketDispatch"


def sets_entry_buckets(settings: Mapping[str, object]) -> bool:
    """Whether `trace.json` says so of all that it describes."""
    return settings.get(SETTING) is True


def joined_by_entry_buckets() -> Column:
    """Whether one of the rows is the join of a consumer that the broker took under entry-bucket dispatch."""
    # Without a number the broker refused it.
    return sf.coalesce(
        sf.bool_or(sf.expr("event = 'join' AND consumer IS NOT NULL AND entry_bucket_dispatch")), sf.lit(False)
    )


def entry_buckets_refused(where: str) -> TraceError:
    """The error for a trace, or the subscription of one, that `where` names."""
    return TraceError(
        f"{where}: entry-bucket dispatch (Pulsar 5.0) sends an entry by its bucket, which a trace does not hold",
        "audit the subscriptions without it, by a trace that leaves the others out",
    )
