"""Entries that two overlapping replay reads sent to two consumers, so that both hold them (F10, E17)."""

from collections.abc import Iterable

import numpy as np

from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import NOBODY, Records
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict


def other_holders(findings: Records) -> dict[int, frozenset[int]]:
    """The consumers, besides its last receiver, that may hold the entry of each duplicate, by the seq of the duplicate.

    An entry that two overlapping reads send to two consumers is pending at both (contract 6.6). It stays pending at the
    first one even if the second one, or a later one, returns it.
    """
    twice = np.flatnonzero(findings.rule == EARLY_DUPLICATE)
    holders: dict[tuple[int, int], frozenset[int]] = {}
    found: dict[int, frozenset[int]] = {}
    for _, finding in findings_at(findings, twice[np.argsort(findings.seq[twice], kind="stable")]):
        position = finding.ledger, finding.entry
        before = holders.get(position, frozenset()) - {finding.other_consumer}
        found[finding.seq] = before
        holders[position] = (before | {finding.other_consumer}) - {finding.returned_by, finding.consumer, NOBODY}
    return found


def given_back(finding: KernelFinding, others: Iterable[int], context: FindingContext) -> FindingVerdict | None:
    """The verdict on a duplicate whose entry one of its other holders gave back; None: none did.

    When that holder leaves or returns the entry, the broker sends it again although another consumer holds it.
    """
    known = context.bugs_with("sent_by_two_replay_reads")
    if not known:
        return None
    for first in sorted(others):
        if finding.returned_by == first:
            gave_back = "has returned it"
        elif context.has_left_between(first, finding.other_seq, finding.seq):
            gave_back = "has left"
        else:
            continue
        because = f"{context.names.spoken(first)}, to which the first of two overlapping reads sent it, {gave_back}"
        return FindingVerdict("known_bug", context.exception("E17"), known, because)
    return None
