"""Verdicts on `early_duplicate`: overlapping replay reads (contract 6.6, F10, E17), or something else.

If two replay reads are in flight at the same time, both send the same entries: the consumer gets a block of entries
again, in the same order, at most one read later, also those that it has acknowledged meanwhile. Findings do not include
entries that were sent only once, so only the order shows that the whole block repeats. Snapshots can prove it, because
the broker counts an entry twice that was still held. A row that the log repeats does not change the broker's count.
"""

from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE, REDELIVERY_COUNT
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.durations import READ_US, SNAPSHOT_NEAR_US
from dispatch_audit.pipeline.replay.rules.findings import NOT_PERMITTED
from dispatch_audit.pipeline.replay.state.output import findings_at
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict, not_provable, unexplained
from dispatch_audit.pipeline.replay.verdicts.overtaking import sent_from_before

_ACKNOWLEDGED: Final = unexplained("no read that was in flight then had it, because it had been acknowledged before")
_NOT_THE_SAME: Final = unexplained(
    "the second of two overlapping reads would have sent it with the same count to the same owner"
)


def duplicates(context: FindingContext) -> dict[int, FindingVerdict]:
    """The verdict on every early duplicate that no exception permits, by its index among all findings."""
    findings = context.found.findings
    indexes = np.flatnonzero((findings.rule == EARLY_DUPLICATE) & (findings.permitted == NOT_PERMITTED))
    again = indexes[findings.other_seq[indexes] != UNKNOWN]
    verdicts = dict.fromkeys(indexes.tolist(), _ACKNOWLEDGED)
    miscounted = frozenset(findings.seq[findings.rule == REDELIVERY_COUNT].tolist())
    replayed = chosen(findings, again[findings.other_marks[again] & Mark.REPLAYED != 0])
    for consumer in np.unique(findings.consumer[again]):
        of_consumer = again[findings.consumer[again] == consumer]
        for block in _blocks(of_consumer, context):
            verdict = _block_verdict(block, of_consumer, replayed, context)
            for at, finding in findings_at(findings, block):
                verdicts[at] = verdict
                if finding.seq in miscounted or finding.seq in context.misrouted:
                    verdicts[at] = _NOT_THE_SAME
                elif verdict.severity == "violation":
                    # A rewound cursor reads an entry again that a read from before the rewind sends.
                    rewound = sent_from_before(finding, finding.other_seq, finding.other_ts, context)
                    verdicts[at] = rewound or verdict
    return verdicts


def _blocks(of_consumer: Ints, context: FindingContext) -> list[Ints]:
    """The duplicates of one consumer in blocks: each block was sent once completely before any of it was sent again.

    A block has no more entries than a read, if settings say how many that are.
    """
    entries_max = int(common_of(context.found.dispatcher.seen)["read_batch_max"])
    found: list[list[int]] = []
    again_from, last_us = UNKNOWN, 0
    for at, finding in findings_at(context.found.findings, of_consumer):
        is_full = bool(found) and len(found[-1]) == entries_max
        if not found or is_full or finding.other_seq > again_from or finding.ts_us - last_us > READ_US:
            found.append([])
            again_from = finding.seq
        found[-1].append(at)
        last_us = finding.ts_us
    return [np.array(block, dtype=np.int64) for block in found]


def _block_verdict(block: Ints, of_consumer: Ints, replayed: Records, context: FindingContext) -> FindingVerdict:
    """The verdict on a block of duplicates of one consumer, by their indexes: whether two overlapping reads sent it.

    `replayed` are all duplicates of the subscription that came from replay the first time. Between two exact snapshots
    the surplus of the consumer grows only by the messages that the broker counted twice.
    """
    found = chosen(context.found.findings, block)
    if contradiction := _contradiction(found, context.skew_us):
        return unexplained(contradiction)
    unproven = _first_read(found, replayed)
    consistent = "the signature of" if block.size > 1 else "consistent with"
    because = f"this is {consistent} overlapping replay reads"
    if counted := _counted_twice(block, of_consumer, context):
        grown, expected, seq = counted
        if grown <= 0:
            return unexplained(
                f"the snapshot at seq {seq} shows that the broker did not send it twice: it counts no message that the "
                "consumer does not hold"
            )
        if grown >= expected:
            proof = f"the snapshot at seq {seq} proves it: the broker counts {count(grown, 'message')} too many"
            because, unproven = f"{because}, and {proof}", None
    return unproven or context.explained(because, "sent_by_two_replay_reads", exception="E17")


def _contradiction(block: Records, skew_us: int) -> str:
    """Why overlapping reads cannot have sent a block (contract 6.6); empty: they can.

    A read sends to one consumer after another, so only entries of the same consumer have an order. If hashes moved
    between the reads, the second may send to one consumer what the first sent to several.
    """
    for former in np.unique(block.other_consumer):
        if (np.diff(block.other_seq[block.other_consumer == former]) < 0).any():
            return "the entries were sent in another order the second time"
    if (block.since_ts[block.since_seq != UNKNOWN] > block.other_ts.min() + skew_us).any():
        return "some of the entries that were sent again were published, or returned, after the first of them was sent"
    if (block.ts_us - block.other_ts > READ_US).any():
        return "more time passed between the two dispatches than a read takes"
    return ""


def _first_read(block: Records, replayed: Records) -> FindingVerdict | None:
    """The verdict on a block if no row shows that a replay read sent it first; None: a replay read did.

    A read sends to several consumers, so duplicates of another consumer in between, `replayed`, show it too. Snapshots
    may still prove that it is F10.
    """
    between = (replayed.other_seq < block.seq.min()) & (replayed.seq > block.other_seq.max())
    if (between & (np.abs(replayed.ts_us - block.ts_us[0]) <= READ_US)).any():
        return None
    # An entry that is read for a consumer without permits goes into replay, above all entries dispatched by then.
    if ((block.since_seq != UNKNOWN) & (block.other_ts - block.since_ts > READ_US)).any():
        return not_provable(
            "it had waited for longer than a read takes when it was sent the first time, and no row shows whether it "
            "was in replay by then: only replay reads overlap"
        )
    return unexplained("a normal read sent it the first time, and only replay reads overlap")


def _counted_twice(block: Ints, of_consumer: Ints, context: FindingContext) -> tuple[int, int, str] | None:
    """What the snapshots around a block show; None: there are none near enough.

    An entry that was acknowledged between its two dispatches, or that another consumer held before, is counted once.

    Returns:
        By how many messages the count of the consumer grew too much, by how many F10 lets it grow, and the later seq.
    """
    found, findings = chosen(context.found.findings, of_consumer), context.found.findings
    held = of_consumer[(found.other_consumer == found.consumer) & (found.acknowledged == 0)]
    first, last, consumer = findings.seq[block[0]], findings.seq[block[-1]], int(findings.consumer[block[0]])
    surpluses = [surplus for surplus in context.found.snapshots.surpluses if surplus.consumer == consumer]
    before = next((s for s in reversed(surpluses) if s.seq_end < first), None)
    after = next((s for s in surpluses if s.seq_begin > last), None)
    # The broker's count for a consumer starts at its join without a surplus.
    since = before or context.joined(consumer)
    counted = before.messages if before is not None else 0
    near = (
        after is not None
        and since is not None
        and findings.ts_us[block[0]] - since.ts_us <= SNAPSHOT_NEAR_US
        and after.ts_us - findings.ts_us[block[-1]] <= SNAPSHOT_NEAR_US
        # A request for all that it holds lets some releases count from zero again (5.6).
        and after.redelivered_us <= since.ts_us
    )
    # A count that other flaws made too low proves nothing.
    if after is None or not near or min(counted, after.messages) < 0 or not np.isin(block, held).any():
        return None
    seqs = findings.seq[held]
    expected = np.count_nonzero(
        (seqs > (before.seq_end if before is not None else UNKNOWN)) & (seqs <= after.seq_begin)
    )
    return after.messages - counted, int(expected), context.names.seq(after.seq)
