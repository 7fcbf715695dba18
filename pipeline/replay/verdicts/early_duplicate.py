"""Verdicts on `early_duplicate`: overlapping replay reads (contract 6.6, F10, E17), or something else.

If two replay reads are in flight at the same time, both send the same entries: the consumer gets a block of entries
again, in the same order, at most one read later. Findings do not include entries that were sent only once, so only the
order shows that the whole block repeats. An entry that its consumer acknowledges between the two dispatches is still
sent again, because the second read already had it (point 3).

Snapshots can prove it, because the broker counts an entry twice that was still held. A row that the log repeats does
not change the broker's count.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE, REDELIVERY_COUNT
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.durations import READ_US, SNAPSHOT_NEAR_US
from dispatch_audit.pipeline.replay.rules.findings import NOT_PERMITTED
from dispatch_audit.pipeline.replay.state.output import findings_at
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, Mark
from dispatch_audit.pipeline.replay.subscription.snapshot_check import Surplus
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import UNEXPLAINED, FindingVerdict, not_provable, unexplained
from dispatch_audit.pipeline.replay.verdicts.overtaking import sent_from_before, still_from_before

_ACKNOWLEDGED: Final = unexplained("no read that was in flight then had it, because it had been acknowledged before")
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
    verdicts: dict[int, FindingVerdict] = {}
    for block in blocks(of_consumer, context):
        verdict = block_verdict(block, of_consumer, replayed, context)
        for at, finding in findings_at(findings, block):
            if finding.seq in miscounted or context.misrouted(finding.seq):
                verdicts[at] = _NOT_THE_SAME
            elif finding.other_seq == UNKNOWN:
                verdicts[at] = _ACKNOWLEDGED
            elif verdict.severity == "violation":
                # A rewound cursor reads an entry again that a read from before the rewind sends.
                verdicts[at] = (
                    sent_from_before(finding, finding.other_seq, finding.other_ts, context)
                    or still_from_before(finding, finding.other_seq, overtakings, context)
                    or verdict
                )
            else:
                verdicts[at] = verdict
    return verdicts


def blocks(of_consumer: Ints, context: FindingContext) -> list[Ints]:
    """The duplicates of one consumer in blocks: each block was sent once completely before any of it was sent again.

    A block has no more entries than a read, if settings say how many that are.
    """
    findings = context.found.findings
    entries_max = int(common_of(context.found.dispatcher.seen)["read_batch_max"])
    found: list[list[int]] = []
    again_from, last_us = UNKNOWN, 0
    for at, finding in findings_at(findings, of_consumer):
        is_full = bool(found) and len(found[-1]) == entries_max
        if not found or is_full or finding.other_seq > again_from or finding.ts_us - last_us > READ_US:
            found.append([])
            again_from = finding.seq
        found[-1].append(at)
        last_us = finding.ts_us
    return [np.array(block, dtype=np.int64) for block in found]


def block_verdict(block: Ints, of_consumer: Ints, replayed: Records, context: FindingContext) -> FindingVerdict:
    """The verdict on a block of duplicates of one consumer, by their indexes: whether two overlapping reads sent it.

    `replayed` are all duplicates of the subscription that came from replay the first time.
    """
    findings = context.found.findings
    known = chosen(findings, block[findings.other_seq[block] != UNKNOWN])
    contradiction = _contradiction(known, context.skew_us)
    if contradiction:
        return unexplained(contradiction)
    unproven = _first_read(known, replayed)
    if (known.ts_us - known.other_ts > READ_US).any():
        return _late_verdict(known, unproven, context)
    return _overlap_verdict(block, of_consumer, unproven, context)


def _contradiction(block: Records, skew_us: int) -> str:
    """Why overlapping reads cannot have sent a block (contract 6.6); empty: they can.

    A read sends to one consumer after another, so only entries of the same consumer have an order. If hashes moved
    between the reads, the second may send to one consumer what the first sent to several.
    """
    for former in np.unique(block.other_consumer):
        if (np.diff(block.other_seq[block.other_consumer == former]) < 0).any():
            return "the entries were sent in another order the second time"
    published = block.since_ts[block.since_seq != UNKNOWN]
    if published.size and published.max() > block.other_ts.min() + skew_us:
        return "some of the entries that were sent again were published, or returned, after the first of them was sent"
    return ""


def _first_read(block: Records, replayed: Records) -> FindingVerdict | None:
    """The verdict on a block if no row shows that a replay read sent it first; None: a replay read did.

    A read sends to several consumers, so duplicates of another consumer in between, `replayed`, show it too. Snapshots
    may still prove that it is F10.
    """
    if block.size == 0:
        return None
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


def _late_verdict(block: Records, unproven: FindingVerdict | None, context: FindingContext) -> FindingVerdict:
    """The verdict on a block that was sent again after more time than a read takes.

    3.x and classic put the entries of a read back if their consumer has no permits, even if it holds them by then, and
    read them again as soon as it has permits (contract 6.2, 6.6).
    """
    if unproven is not None and unproven.severity == "violation":
        return unproven
    contradiction = "more time passed between the two dispatches than a read takes"
    idle = bool((block.receiver_sent_ts[0] - block.other_ts <= READ_US).all())
    permits_recorded = common_of(context.found.dispatcher.seen)["permits_known_by"] == BY_FLOWS
    if context.drains or permits_recorded or not idle:
        return unexplained(contradiction)
    return not_provable(
        f"{contradiction}, but the consumer was sent nothing in between, and no row shows whether it had permits: "
        "without any, the second of two overlapping reads is repeated when it has some again"
    )


def _is_near(before: Surplus | None, after: Surplus | None, block: Ints, context: FindingContext) -> bool:
    """Whether the snapshots before and after a block are near enough to attribute their difference to the block."""
    times = context.found.findings.ts_us[block]
    joined = context.joined(int(context.found.findings.consumer[block[0]]))
    # The broker's count for a consumer starts at its join without a surplus.
    since_us = before.ts_us if before is not None else joined.ts_us if joined is not None else None
    near_before = since_us is not None and times[0] - since_us <= SNAPSHOT_NEAR_US
    return near_before and after is not None and after.ts_us - times[-1] <= SNAPSHOT_NEAR_US


def _overlap_verdict(
    block: Ints, of_consumer: Ints, unproven: FindingVerdict | None, context: FindingContext
) -> FindingVerdict:
    """The verdict on a block with the signature of F10, which the snapshots around it may prove or refute.

    `unproven` is the verdict if they do neither; None: the verdict is F10.

    Between two exact snapshots the surplus grows only by the messages that the broker counted twice. An entry that was
    acknowledged between its two dispatches, or went to two consumers, is never counted twice for one consumer.
    """
    findings = context.found.findings
    # An entry that another consumer held before, because the hash moved, is counted once for this one.
    same = findings.other_consumer[of_consumer] == findings.consumer[of_consumer]
    held = of_consumer[same & (findings.acknowledged[of_consumer] == 0)]
    first, last = findings.seq[block[0]], findings.seq[block[-1]]
    if not context.bugs_with("sent_by_two_replay_reads"):
        return UNEXPLAINED
    consumer = int(findings.consumer[block[0]])
    surpluses = [surplus for surplus in context.found.snapshots.surpluses if surplus.consumer == consumer]
    before = next((s for s in reversed(surpluses) if s.seq_end < first), None)
    after = next((s for s in surpluses if s.seq_begin > last), None)
    lowered = any(s is not None and s.messages < 0 for s in (before, after))
    if lowered or not np.isin(block, held).any() or not _is_near(before, after, block, context):
        # A count that other flaws made too low proves nothing.
        after = None
    because = (
        "this is the signature of overlapping replay reads"
        if block.size > 1
        else "this is consistent with overlapping replay reads"
    )
    if after is not None:
        snapshot_seq = context.names.seq(after.seq)
        grown = after.messages - (before.messages if before is not None else 0)
        since = before.seq_end if before is not None else UNKNOWN
        seqs = findings.seq[held]
        expected = int(np.count_nonzero((seqs > since) & (seqs <= after.seq_begin)))
        if grown <= 0:
            return unexplained(
                f"the snapshot at seq {snapshot_seq} shows that the broker did not send it twice: it counts no message "
                "that the consumer does not hold"
            )
        if grown >= expected:
            because += (
                f", and the snapshot at seq {snapshot_seq} proves it: the broker counts {count(grown, 'message')} too "
                "many"
            )
            unproven = None
    return unproven or context.known_bug(because, "sent_by_two_replay_reads", exception="E17") or UNEXPLAINED
