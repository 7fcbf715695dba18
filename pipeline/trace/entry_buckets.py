"""Recognises and refuses entry-bucket dispatch of Pulsar 5.0, because a trace does not hold the buckets.

A subscriber requests it by a flag in its key-shared metadata. The broker then assigns buckets of a segment instead of
hashes, and producers stamp the bucket on entries, so the hash of a key does not decide who may get it.

Source: contract 3.12; TRACE_FORMAT, "Entry buckets".
"""

from collections.abc import Mapping

from dispatch_audit.pipeline.contract.setting_kinds import ENTRY_BUCKETS
from dispatch_audit.pipeline.errors import TraceError


def sets_entry_buckets(settings: Mapping[str, object]) -> bool:
    """Whether the settings of `trace.json` declare entry-bucket dispatch for the whole trace."""
    return settings.get(ENTRY_BUCKETS) is True


def entry_buckets_refused(where: str) -> TraceError:
    """Returns the error for the trace or the subscription that `where` names."""
    return TraceError(
        f"{where}: entry-bucket dispatch (Pulsar 5.0) sends an entry by its bucket, which a trace does not hold",
        "record a trace of the other subscriptions only",
    )
