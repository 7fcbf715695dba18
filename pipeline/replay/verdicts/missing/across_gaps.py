"""A finding that rows lost in a gap, or from before the trace, may explain is not provable.

The rows that prove a finding are in the trace. But whether an exception or a known bug explains it may depend on rows
some time before, or shortly after: whether its hash drained, what a consumer that left had held, what the same replay
read sent. Such rows may be missing until mark-delete has passed every entry that was open in the gap.

If the selector of the broker is unknown, the same holds for the whole trace, because owners decide which hash drains.
"""

from collections.abc import Sequence

import numpy as np

from dispatch_audit.pipeline.contract.rules import (
    EARLY_DUPLICATE,
    FIRST_DELIVERY_ORDER,
    OVERTAKING,
    REDELIVERY_ORDER,
    SINGLE_HOLDER,
)
from dispatch_audit.pipeline.replay.state.output import KernelFinding, findings_at
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.state.state import READ_US
from dispatch_audit.pipeline.replay.subscription.missing_rows import UnseenRows
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict, not_provable


def across_gaps(verdicts: Sequence[FindingVerdict], context: FindingContext) -> list[FindingVerdict]:
    """The verdicts, in their order; violations that missing rows may explain become not provable."""
    found = list(verdicts)
    if not context.found.loop.missing.unseen:
        return found
    findings, overtaking = context.found.findings, set[int]()
    violations = _violations(verdicts)
    # The verdict on a first delivery is that on the dispatch that passed it, so first deliveries come last.
    in_order = violations[np.argsort(findings.rule[violations] == FIRST_DELIVERY_ORDER, kind="stable")]
    for at, finding in findings_at(findings, in_order):
        gap = _gap_about(finding, overtaking, context)
        if gap is not None:
            found[at] = _unknown(gap, context)
            if finding.rule in OVERTAKING:
                overtaking.add(finding.seq)
    return found


def without_owners(verdicts: Sequence[FindingVerdict], context: FindingContext) -> list[FindingVerdict]:
    """The verdicts if the owners of hashes are unknown; violations that this may explain become not provable."""
    found, findings = list(verdicts), context.found.findings
    for at, finding in findings_at(findings, _violations(verdicts)):
        if _depends_on_the_past(finding, context):
            found[at] = not_provable(context.doubts.all[-1].because)
    return found


def _violations(verdicts: Sequence[FindingVerdict]) -> Ints:
    return np.flatnonzero([verdict.severity == "violation" for verdict in verdicts])


def _gap_about(finding: KernelFinding, overtaking: set[int], context: FindingContext) -> UnseenRows | None:
    """The first gap whose rows may explain a finding; None: there is none."""
    for gap in context.found.loop.missing.unseen:
        if finding.seq <= gap.begin.seq:
            # Another thread may have recorded the explaining row just after the gap began.
            ahead_us = READ_US if finding.rule == EARLY_DUPLICATE else context.skew_us
            if finding.ts_us >= gap.begin.ts_us - ahead_us:
                return gap
        elif gap.settled is None or finding.ts_us <= gap.settled.ts_us + READ_US:
            if finding.rule == FIRST_DELIVERY_ORDER and finding.other_seq in overtaking:
                return gap
            if _depends_on_the_past(finding, context):
                return gap
    return None


def _depends_on_the_past(finding: KernelFinding, context: FindingContext) -> bool:
    """Whether an exception or a bug of this broker may explain a finding through earlier rows."""
    if finding.rule == EARLY_DUPLICATE:
        return bool(context.bugs_with("sent_by_two_replay_reads"))
    if not context.drains:
        return finding.rule in (SINGLE_HOLDER, *OVERTAKING, FIRST_DELIVERY_ORDER)
    if finding.rule == REDELIVERY_ORDER:
        return "E7" in context.exceptions and finding.ts_us - finding.other_since_ts <= READ_US
    if finding.rule in (*OVERTAKING, FIRST_DELIVERY_ORDER):
        return bool(context.bugs_with("unblocked_amid_a_read"))
    return False


def _unknown(gap: UnseenRows, context: FindingContext) -> FindingVerdict:
    if gap.begin.seq < 0:
        return not_provable("the trace begins later than the subscription, and rows before it may explain it")
    begin, end = map(context.names.seq, (gap.begin.seq, gap.until_seq))
    return not_provable(f"rows between seq {begin} and seq {end} are missing, and they may explain it")
