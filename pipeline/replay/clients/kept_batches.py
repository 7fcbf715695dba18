"""Batches that the broker keeps as pending although all messages are acknowledged: in parts, and never as a whole.

A client that is sent the rest of a batch again does not know that the first part is acknowledged, so it never sends the
acknowledgement of the whole entry that the broker waits for (contract 5.3; #26125).
"""

from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.marks import UNSURE, Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.naming import position

_OPEN: Final = UNSURE | Mark.VAGUE | Mark.MAYBE_SKIPPED | Mark.PASSED | Mark.SETTLING
_IN_PARTS: Final = FindingVerdict(
    "info",
    because=(
        "a client that is sent the rest of a batch again does not know that the first part is acknowledged, and never "
        "acknowledges the whole (#26125); if the key moves to another consumer it waits until this one reconnects"
    ),
)


def kept_batches(context: FindingContext) -> list[JudgedFinding]:
    """A finding for each connected consumer with such batches; only draining hashes wait for them."""
    if not context.drains:
        return []
    seen = context.found.dispatcher.seen
    entries: Any = seen.entries.view(np.ndarray)
    holder, marks = entries["holder"], entries["marks"]
    kept = (entries["ledger"] != UNKNOWN) & (holder != NOBODY) & (marks & (_OPEN | Mark.ACKED) == Mark.ACKED)
    # A whole acknowledgement may also have come before the dispatch.
    kept &= entries["words_at"] != UNKNOWN
    kept[kept] &= seen.consumers.view(np.ndarray)["connected"][holder[kept]] == 1
    return [
        _finding(entries[np.flatnonzero(kept & (holder == consumer))], context)
        for consumer in np.unique(holder[kept]).tolist()
    ]


def _finding(kept: Any, context: FindingContext) -> JudgedFinding:
    first = kept[np.lexsort((kept["entry"], kept["ledger"]))[0]]
    ledger, entry, consumer = int(first["ledger"]), int(first["entry"]), int(first["holder"])
    sent = TracePoint(*first["sent_at"].item())
    names, at = context.names, position(ledger, entry)
    return context.finding(
        sent,
        f"{names.spoken(consumer)} acknowledged all messages of {count(kept.size, 'batch', 'batches')}, {at} the "
        "first, in parts only, so the broker counts them as pending",
        _IN_PARTS,
        [f"seq {names.seq(sent.seq)}: {at} dispatched to {names.spoken(consumer)}"],
        remedy=(
            "Reconnect the consumer. Until its client is fixed let it acknowledge or give back batches as a whole "
            "(no enableBatchIndexAcknowledgment)."
        ),
        consumer=consumer,
        ledger_id=ledger,
        entry_id=entry,
        detail={"held": int(kept.size)},
    )
