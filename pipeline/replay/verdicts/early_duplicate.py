"""Verdicts on `early_duplicate`: overlapping replay reads (F10, E17), or something else.

An entry that its consumer acknowledges between the two dispatches is still sent again, because the second read already
had it (contract 6.6, point 3).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE, REDELIVERY_COUNT
from dispatch_audit.pipeline.replay.rules.alibis import NOT_PERMITTED
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, not_provable, unexplained
from dispatch_audit.pipeline.replay.verdicts.overlapping_reads import block_verdict, blocks
from dispatch_audit.pipeline.replay.verdicts.overtaking import sent_from_before, still_from_before

_ACKNOWLEDGED: Final = unexplained("no read that was in flight then had it, because it had been acknowledged before")
_MORE_THAN_TWICE: Final = unexplained("it was sent more than twice, but two overlapping reads send it twice")
_NOT_THE_SAME: Final = unexplained(
    "the second of two overlapping reads would have sent it with the same count to the same owner"
)


def duplicates(overtakings: Mapping[int, FindingVerdict], context: FindingContext) -> dict[int, FindingVerdict]:
    """The verdict on every early duplicate that no exception permits, by its index among all findings.

    `overtakings` has, by seq, the verdict on every dispatch that passed a waiting entry of its hash.
    """
    findings = context.found.findings
    indexes = np.flatnonzero((findings.rule == EARLY_DUPLICATE) & (findings.permitted == NOT_PERMITTED))
    indexes = indexes[np.argsort(findings.seq[indexes], kind="stable")]
    known = indexes[findings.other_seq[indexes] != UNKNOWN]
    replayed = chosen(findings, known[findings.other_marks[known] & Mark.REPLAYED != 0])
    verdicts: dict[int, FindingVerdict] = {}
    for consumer in np.unique(findings.consumer[indexes]):
        verdicts |= _judged(indexes[findings.consumer[indexes] == consumer], replayed, overtakings, context)
    return verdicts


def _judged(
    of_consumer: Ints, replayed: Records, overtakings: Mapping[int, FindingVerdict], context: FindingContext
) -> dict[int, FindingVerdict]:
    """The verdicts on the duplicates of one consumer, given by their indexes in the order of seq, by index."""
    findings = context.found.findings
    miscounted = frozenset(findings.seq[findings.rule == REDELIVERY_COUNT].tolist())
    seqs = frozenset(findings.seq[of_consumer].tolist())
    repeated = findings.marks[of_consumer] & Mark.REPEATED != 0
    repeated |= np.isin(findings.other_seq[of_consumer], list(seqs))
    repeated_again = frozenset(findings.other_seq[of_consumer][repeated].tolist())
    more_than_twice = frozenset(of_consumer[repeated].tolist())
    verdicts: dict[int, FindingVerdict] = {}
    for block in blocks(of_consumer, context):
        verdict = block_verdict(block, of_consumer, replayed, context)
        for at, finding in findings_at(findings, block):
            if at in more_than_twice or finding.seq in repeated_again:
                verdicts[at] = _MORE_THAN_TWICE
            elif finding.seq in miscounted or context.misrouted(finding.seq):
                verdicts[at] = _NOT_THE_SAME
            elif finding.other_seq == UNKNOWN:
                verdicts[at] = _perhaps_reset(finding, context) or _ACKNOWLEDGED
            elif verdict.severity == "violation":
                # A rewound cursor reads an entry again that a read from before the rewind sends.
                verdicts[at] = (
                    sent_from_before(finding, finding.other_seq, finding.other_ts, context)
                    or still_from_before(finding, finding.other_seq, overtakings, context)
                    or _perhaps_reset(finding, context)
                    or verdict
                )
            else:
                verdicts[at] = verdict
    return verdicts


def _perhaps_reset(finding: KernelFinding, context: FindingContext) -> FindingVerdict | None:
    """The verdict on an entry that was sent again after the broker closed all consumers; None: that was no reset.

    After a seek acknowledged entries are sent again, after an unload those whose acknowledgement was not persisted
    (contract 5.10, E3).
    """
    rejoin = context.rejoin_before(finding.seq)
    if rejoin is None or "reset" in context.config.written:
        return None
    if not rejoin.by_broker or finding.other_seq >= rejoin.left.seq:
        return None
    return not_provable(
        f"the broker closed the last consumer at seq {context.names.seq(rejoin.left.seq)}, as it does for a seek or an "
        "unload, after which it sends acknowledged entries again (E3), and no row says why"
    )
