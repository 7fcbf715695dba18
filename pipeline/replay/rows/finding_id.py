"""Ids of findings, which are the same in each audit of a trace."""

import hashlib
import json
from collections import Counter
from typing import Final

from dispatch_audit.pipeline.replay.verdicts.naming import Columns

_IDENTIFYING: Final = (
    "rule",
    "topic",
    "subscription",
    "broker",
    "seq",
    "sticky_hash",
    "key_id",
    "ledger_id",
    "entry_id",
    "consumer",
    "other_consumer",
)


def with_finding_ids(columns: Columns) -> Columns:
    """The columns of `violations` of one subscription with `finding_id`, 12 hex digits.

    The digest covers the events, with the recorders' own seqs and numbers, and not the verdict or explanation, so a
    finding keeps its id if a later version judges or words it differently. Findings with the same events are numbered.
    """
    rows = len(columns["rule"])
    seen: Counter[str] = Counter()
    ids = []
    for row in zip(*(columns.get(name, [None] * rows) for name in _IDENTIFYING), strict=True):
        identity = json.dumps(row)
        ids.append(hashlib.sha256(f"{identity} {seen[identity]}".encode()).hexdigest()[:12])
        seen[identity] += 1
    return {"finding_id": ids, **columns}
