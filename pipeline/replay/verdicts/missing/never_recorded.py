"""Findings that rest on rows of a kind that the trace does not have at all are not provable.

A recorder may write no acknowledgements: then nothing shows that a consumer still held an entry, or that one that was
given back still waits. Or it may write no leaves: then a consumer that no later row and no later snapshot shows may
have been gone, and what it owned and held went to others.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.answers import Missing
from dispatch_audit.pipeline.contract.rules import (
    EARLY_DUPLICATE,
    MISROUTED,
    OVERTAKING,
    REDELIVERY_COUNT,
    SINGLE_HOLDER,
    UNACKED_LIMIT,
)
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.naming import Names
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict

NO_ACKNOWLEDGEMENT: Final = "the trace has no row of an acknowledgement, so it does not show what consumers still held"
_ON_ACKNOWLEDGEMENTS: Final = frozenset({SINGLE_HOLDER, *OVERTAKING, UNACKED_LIMIT, REDELIVERY_COUNT})
_ON_LEAVES: Final = frozenset({SINGLE_HOLDER, EARLY_DUPLICATE, *OVERTAKING, *MISROUTED})
NO_LEAVE: Final = "the trace has no row of a leave, and it shows nothing of {} from then on, which may have left before"
_UNRECORDED: Final = FindingVerdict("not_provable", because=NO_ACKNOWLEDGEMENT)
_PROVEN: Final = ("violation", "known_bug")


def never_recorded(verdicts: Sequence[FindingVerdict], found: ReplayResult) -> list[FindingVerdict]:
    """The verdicts, in the order of the findings; those that rest on rows that no recorder wrote are not provable."""
    if found.acks_recorded and found.leaves_recorded:
        return list(verdicts)
    findings = findings_at(found.findings, np.arange(len(verdicts)))
    return [_weighed(verdicts[at], finding, found) for at, finding in findings]


def unrecorded(found: ReplayResult) -> list[Missing]:
    """The kinds of rows that the trace lacks and that its findings rest on."""
    rules, missing = found.findings.rule, list[Missing]()
    if not found.acks_recorded and np.isin(rules, list(_ON_ACKNOWLEDGEMENTS)).any():
        missing.append("acknowledgements")
    on_leaves = found.findings.seq[np.isin(rules, list(_ON_LEAVES))]
    if on_leaves.size and perhaps_gone(found, int(on_leaves.max())):
        missing.append("leaves")
    return missing


def perhaps_gone(found: ReplayResult, seq: int) -> str:
    """Why a consumer may have left before a row although no row says so, as a clause; empty: none may have."""
    if found.leaves_recorded:
        return ""
    for index, number in enumerate(found.numbers):
        stay = found.stays.get(number)
        if stay is not None and stay.joined is not None and stay.joined.seq < seq and found.last_named[index] < seq:
            return NO_LEAVE.format(Names(found.numbers, found.stays, found.recorders).spoken(index))
    return ""


def _weighed(verdict: FindingVerdict, finding: KernelFinding, found: ReplayResult) -> FindingVerdict:
    if verdict.severity not in _PROVEN:
        return verdict
    if not found.acks_recorded and finding.rule in _ON_ACKNOWLEDGEMENTS:
        return _UNRECORDED
    because = perhaps_gone(found, finding.seq) if finding.rule in _ON_LEAVES else ""
    return FindingVerdict("not_provable", because=because) if because else verdict
