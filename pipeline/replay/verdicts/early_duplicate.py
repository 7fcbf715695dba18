"""Verdicts on `early_duplicate`: overlapping replay reads (F10, E17), or something else.

Two replay reads in flight at the same time hold the same entries, and both are sent: a block of entries goes to the
same consumer once more, in the same order, at most one read later. Source: contract 6.6, whose five points are asked
here as far as findings show them. Of entries that were not sent again they show nothing, so that the whole block
repeats is seen by its order only.

Proof is in the snapshots: the broker charges its consumer twice, and a row doubled in the log does not do that.
"""

from typing import Any, Final

import numpy as np

from pipeline.contract.rules import EARLY_DUPLICATE, REDELIVERY_COUNT
from pipeline.replay.rules.permitted import NOT_PERMITTED
from pipeline.replay.state.read_position import READ_US
from pipeline.replay.state.state import REPEATED, REPLAYED, UNKNOWN, Ints, Records
from pipeline.replay.subscription.result import Surplus
from pipeline.replay.verdicts.context import FindingContext
from pipeline.replay.verdicts.verdict import FindingVerdict, unexplained

# How far from a block of duplicates a snapshot may lie that says something of it.
LOOK_AHEAD_US: Final = 30_000_000

_ACKNOWLEDGED = unexplained("an acknowledged entry is in no replay read")


def duplicates(around: FindingContext) -> dict[int, FindingVerdict]:
    """The verdict on every early duplicate that no exception permits, by its index among all findings."""
    findings = around.found.findings
    of_rule = np.flatnonzero(findings.rule == EARLY_DUPLICATE)
    of_rule = of_rule[np.argsort(findings.seq[of_rule], kind="stable")]
    acknowledged = findings.acknowledged[of_rule] == 1
    open_ones = findings.permitted[of_rule] == NOT_PERMITTED
    verdicts = {int(at): _ACKNOWLEDGED for at in of_rule[acknowledged & open_ones]}
    held = of_rule[~acknowledged & open_ones]
    for consumer in np.unique(findings.consumer[held]):
        mine = held[findings.consumer[held] == consumer]
        for at, verdict in _judged(mine, around).items():
            verdicts[at] = verdict
    return verdicts


def _judged(mine: Ints, around: FindingContext) -> dict[int, FindingVerdict]:
    """The duplicates of one consumer, in the order of seq."""
    findings = around.found.findings
    miscounted = frozenset(around.seqs_of(REDELIVERY_COUNT).tolist())
    repeated_again = frozenset(findings.other_seq[mine][findings.marks[mine] & REPEATED != 0].tolist())
    verdicts: dict[int, FindingVerdict] = {}
    for block in _blocks(mine, findings):
        against_all = _against_block(findings[block].view(np.recarray), around.skew_us)
        weighed = unexplained(against_all) if against_all else _weighed(block, mine, around)
        for at in block:
            finding = findings[at]
            if finding.marks & REPEATED != 0 or int(finding.seq) in repeated_again:
                verdicts[int(at)] = unexplained("it was sent more than twice, and two reads overlap once")
            elif int(finding.seq) in miscounted or around.strayed(finding.seq):
                verdicts[int(at)] = unexplained(
                    "the second read would have sent it with the same count to the same owner"
                )
            else:
                verdicts[int(at)] = weighed
    return verdicts


def _blocks(mine: Ints, findings: Records) -> list[Ints]:
    """The duplicates of one consumer, cut so that all of a block was sent once before any of it was again."""
    blocks: list[list[int]] = []
    again_from, last_us = UNKNOWN, 0
    for at in mine:
        finding: Any = findings[at]
        if not blocks or finding.other_seq > again_from or finding.ts_us - last_us > READ_US:
            blocks.append([])
            again_from = finding.seq
        blocks[-1].append(int(at))
        last_us = finding.ts_us
    return [np.array(block, dtype=np.int64) for block in blocks]


def _against_block(block: Records, skew_us: int) -> str:
    """What shows that no overlapping read made a block; empty if nothing does. By the points of contract 6.6."""
    if not (block.other_marks & REPLAYED).any():
        return "a normal read sent it the first time, and only replay reads overlap"
    if (np.diff(block.other_seq) < 0).any():
        return "the entries came in another order the second time"
    published = block.since_ts[block.since_seq != UNKNOWN]
    if published.size and published.max() > block.other_ts.min() + skew_us:
        return "some of what was sent again was published after the first was sent"
    if (block.ts_us - block.other_ts > READ_US).any():
        return "more time passed than a read takes"
    return ""


def _is_near(before: Surplus | None, after: Surplus | None, block: Ints, around: FindingContext) -> bool:
    """Whether the snapshots around a block are so near that nothing else that is of interest lies between."""
    times = around.found.findings.ts_us[block]
    joined = around.joined(int(around.found.findings.consumer[block[0]]))
    # A consumer that has just come is charged with nothing too much.
    since_us = before.ts_us if before is not None else joined.ts_us if joined is not None else None
    near_before = since_us is not None and times[0] - since_us <= LOOK_AHEAD_US
    return near_before and after is not None and after.ts_us - times[-1] <= LOOK_AHEAD_US


def _weighed(block: Ints, mine: Ints, around: FindingContext) -> FindingVerdict:
    """A block with the signature of F10, in the light of the snapshots around it.

    Between two exact snapshots the surplus grows by every message that was charged twice, and by nothing else.
    """
    findings = around.found.findings
    first, last = findings.seq[block[0]], findings.seq[block[-1]]
    known = around.bugs_with("sent_by_two_replay_reads")
    if not known:
        return unexplained("")
    surpluses = around.surpluses_of(int(findings.consumer[block[0]]))
    before = next((s for s in reversed(surpluses) if s.seq_end < first), None)
    after = next((s for s in surpluses if s.seq_begin > last), None)
    if not _is_near(before, after, block, around):
        after = None
    because = (
        "the signature of overlapping replay reads" if block.size > 1 else "consistent with overlapping replay reads"
    )
    if after is not None:
        told = around.found.recorders.spoken(after.seq)
        grown = after.messages - (before.messages if before is not None else 0)
        since = before.seq_end if before is not None else UNKNOWN
        seqs = findings.seq[mine]
        expected = int(np.count_nonzero((seqs > since) & (seqs <= after.seq_begin)))
        if grown <= 0:
            return unexplained(
                f"the snapshot at seq {told} refutes that the broker sent it twice: it counts no message that the "
                "consumer does not hold"
            )
        if grown >= expected:
            because = f"{because}, proven by the snapshot at seq {told}: the broker counts {grown} messages too many"
    return FindingVerdict("known_bug", around.exception("E17"), known, because)
