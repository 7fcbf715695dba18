"""The time for which each consumer of a subscription was connected."""

from dataclasses import dataclass

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint


@checkpointed("stay")
@dataclass
class Stay:
    """The time for which one consumer was connected.

    Attributes:
        row: the first row of its join; where that is missing, its values in the snapshot that showed it.
        joined: where its join took effect; None: its row is missing, or it has not taken effect yet.
        left: where its leave took effect.
        leave_reason: the reason that its leave, or the reset that closed it, gives.
        perhaps_last: whether it may have been the last consumer when it left, because a join overlaps with its leave.
        unseen: whether its join is missing, and `joined` is where a snapshot showed it.
    """

    row: MembershipEvent
    joined: TracePoint | None = None
    left: TracePoint | None = None
    leave_reason: str = ""
    perhaps_last: bool = False
    unseen: bool = False
