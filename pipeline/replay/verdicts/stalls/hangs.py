"""Stalls in which the locks of the dispatcher were held: a snapshot that needs them did not end meanwhile.

Whatever dispatches, joins or leaves needs the same locks, so the hang explains that nothing was sent. Who held them is
in the recorder's row, and shows the known deadlock between a dispatcher and its pending acknowledgements.
"""

from typing import Final

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.signs.broker_signs import Hang
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
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
