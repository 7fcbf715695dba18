"""Identities of findings, which stay the same from audit to audit of a trace."""

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
    """The columns of `violations` with `finding_id`, 12 hex digits.

    The digest covers the events and not their verdict or explanation: a finding that a later version judges or words
    differently is still the same one. So it is in the seqs and numbers of the recorder, whatever a replay calls them.
    Findings that are equal in all of it are numbered.

    Args:
        columns: the rows of one subscription, in the recorders' own numbers.
    """
    rows = len(columns["rule"])
    seen: Counter[str] = Counter()
    ids = []
    for row in zip(*(columns.get(name, [None] * rows) for name in _IDENTIFYING), strict=True):
        identity = json.dumps(row)
        ids.append(hashlib.sha256(f"{identity} {seen[identity]}".encode()).hexdigest()[:12])
        seen[identity] += 1
    return {"finding_id": ids, **columns}
