"""Times in which the locks of the dispatcher were held: a snapshot that needs them did not end meanwhile.

Whatever dispatches, joins or leaves needs the same locks, so the hang explains that nothing was sent. Who held them is
in the recorder's row, and shows the known deadlock between a dispatcher and its pending acknowledgements.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.signs.broker_signs import Hang
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding, not_provable
from dispatch_audit.pipeline.utc import moment

PENDING_ACKS: Final = "PendingAckHandleImpl"
"""The class of Pulsar whose lock a dispatcher takes that acknowledges an aborted message by itself."""


def hang_in(span: Interval, context: FindingContext) -> Hang | None:
    """The hang that covers most of an interval; None: none does."""
    hang = context.found.signs.hang_within(span.from_ts, span.to_ts)
    if hang is None:
        return None
    covered = min(hang.until_us, span.to_ts) - max(hang.begun_us, span.from_ts)
    return hang if 2 * covered >= span.to_ts - span.from_ts else None


def bugs_of(hang: Hang, context: FindingContext) -> tuple[str, ...]:
    """The known bugs that the holders of the locks show."""
    return context.bugs_with("deadlocked_with_pending_acks") if PENDING_ACKS in hang.waits_for else ()


def spoken(hang: Hang) -> str:
    """What a hang says, as a clause."""
    until = f"until {moment(hang.until_us)}" if hang.over else f"up to {moment(hang.until_us)} at least"
    holders = f": it waited for {hang.waits_for}" if hang.waits_for else ""
    return f"the broker hung: a snapshot that began at {moment(hang.begun_us)} got no locks {until}{holders}"


def hung(context: FindingContext, told: Sequence[Blocked]) -> list[JudgedFinding]:
    """A finding for each hang in which no entry is known to wait, and which none of the intervals `told` names.

    A topic's thread that waits for the locks stores nothing either, so that the entries that wait have no rows.
    """
    found = context.found
    named = [hang_in(interval.span, context) for interval in told]
    return [
        context.finding(
            TracePoint(hang.seq, hang.until_us),
            spoken(hang),
            not_provable("no row shows an entry that waited, but a broker that hangs may not store what is published"),
            [f"seq {context.names.seq(hang.seq)}: the last row about it"],
            remedy="See what the threads of the broker waited for (jstack); one that holds the locks for ever ends "
            "only with the broker.",
            detail={"seconds": (hang.until_us - hang.begun_us) / 1e6},
        )
        for hang in found.signs.hangs
        if hang not in named
        and (found.report_range.contains(hang.seq) if hang.over else found.report_range.final)
        and hang.until_us - hang.begun_us >= context.config.thresholds.stall_threshold_us
    ]
